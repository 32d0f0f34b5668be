"""Requests of a test to a broker or cluster, besides its clients."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from urllib.parse import quote

from odradek.testing.clock import KafkaClock
from odradek.testing.control import ControlClient, ControlFailed
from odradek.testing.faults import FaultTarget
from odradek.testing.waiting import TIMEOUT_S, NotReached, wait_for

if TYPE_CHECKING:
    from odradek.testing.reading import StoredRecord
    from odradek.tools.client import Client
    from odradek.tools.security.client_security import ClientSecurity

T = TypeVar("T")

CLIENT_ID: Final = "odradek-testing"
"""The client id in the requests of handles."""


class SeenRequest(NamedTuple):
    """Requests that are counted together."""

    api: str
    """The name in Kafka's spelling, such as ApiVersions."""
    version: int
    client_id: str


class ConnectedClient(NamedTuple):
    """Connections that are counted together; names are empty where a client gives none."""

    client_id: str
    software_name: str
    software_version: str


class PartitionReplicas(NamedTuple):
    """Brokers of a partition."""

    leader: int
    """-1 when there is none."""
    replicas: list[int]
    in_sync: list[int]


class KafkaHandle(FaultTarget):
    """Topics, records and offsets at `bootstrap_servers`; may be used from several threads.

    Its client is imported and connected at the first use.
    """

    def __init__(self) -> None:
        self._client: Client | None = None
        self._lock = threading.Lock()
        self._timeout_s = TIMEOUT_S

    def set_timeout(self, timeout_s: float) -> None:
        """How long `records` waits where a call does not say it; 30 s otherwise."""
        self._timeout_s = timeout_s

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """host:port of each broker, with commas between them."""

    @property
    def clock(self) -> KafkaClock:
        """The time of the brokers."""
        return KafkaClock(lambda: self.controls)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic; returns its name.

        replication_factor  -1: the default of the brokers
        raises              ClientError; KafkaError, also when the topic exists
        """
        from odradek.testing.reading import create_topic

        row = (name, partitions, replication_factor, dict(configs or {}))
        self.with_client(lambda client: create_topic(client, *row))
        return name

    def records(
        self, topic: str, count: int = 0, *, timeout_s: float | None = None, committed: bool = True
    ) -> Sequence[StoredRecord]:
        """The records of a topic, by partition and offset.

        count      wait until there are at least so many
        timeout_s  how long; None: what `set_timeout` has set
        committed  without those of open and aborted transactions, as with
                   isolation.level=read_committed
        raises     UnknownTopic at once; NotReached; ClientError; KafkaError
        """
        from odradek.testing.reading import UnknownTopic, read_topic

        def read() -> Sequence[StoredRecord]:
            return self.with_client(lambda client: read_topic(client, topic, committed=committed))

        if count <= 0:
            return read()
        if timeout_s is None:
            timeout_s = self._timeout_s
        records: Sequence[StoredRecord] = ()

        def are_enough() -> bool | UnknownTopic:
            nonlocal records
            try:
                records = read()
            except UnknownTopic as error:
                return error
            return len(records) >= count

        try:
            result = wait_for(are_enough, timeout_s=timeout_s)
        except NotReached as error:
            shown = "".join(f"\n  {record}" for record in records[-10:])
            raise NotReached(
                f"{topic} has {len(records)} of {count} records after {timeout_s:g} s"
                f"{shown and '; the last ones:'}{shown}"
            ) from error.__cause__
        if isinstance(result, UnknownTopic):
            raise result
        return records

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Partition -> the offset after its last record that consumers may read.

        raises  ClientError; KafkaError
        """
        from odradek.testing.reading import end_offsets

        return self.with_client(lambda client: end_offsets(client, topic))

    def committed_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """(topic, partition) -> the offset that a consumer group has committed.

        raises  ClientError; KafkaError
        """
        from odradek.testing.reading import group_offsets

        return self.with_client(lambda client: group_offsets(client, group))

    def lag(self, group: str, topic: str) -> int:
        """How many offsets of a topic a group has not committed, in all partitions.

        A partition without a committed offset counts from its start.

        raises  ClientError; KafkaError
        """
        from odradek.testing.reading import group_lag

        return self.with_client(lambda client: group_lag(client, group, topic))

    def active_groups(self) -> list[str]:
        """Consumer groups that have members.

        raises  ClientError; KafkaError
        """
        from odradek.testing.reading import groups_with_members

        return self.with_client(groups_with_members)

    def open_transactions(self) -> list[str]:
        """Transactional ids whose transaction was neither committed nor aborted.

        raises  ClientError; KafkaError
        """
        from odradek.testing.reading import transactional_ids_at_work

        return self.with_client(transactional_ids_at_work)

    def replicas(self, topic: str, partition: int = 0) -> PartitionReplicas:
        """Where a partition is, as the first running broker knows it.

        raises  ControlFailed
        """
        return _replicas(self.controls[0], topic, partition)

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Have a broker lead a partition; it becomes the preferred replica.

        Returns when every running broker knows it.
        raises  ClientError; KafkaError; ControlFailed; NotReached
        """
        from odradek.protocol.topic_partition import TopicPartition
        from odradek.testing.leading import move_leader

        moved = TopicPartition(topic, partition)
        self.with_client(
            lambda client: move_leader(
                client, moved, broker, lambda: self.replicas(topic, partition)
            )
        )
        wait_for(
            lambda: all(
                _replicas(control, topic, partition).leader == broker for control in self.controls
            ),
            f"every broker knows that {broker} leads {topic}-{partition}",
        )

    def move_coordinator(
        self, broker: int, *, group: str | None = None, transactional_id: str | None = None
    ) -> None:
        """Have a broker coordinate a group or a transactional id, and all of the same partition.

        raises  as `move_leader`
        """
        query = f"group={quote(group, '')}" if group is not None else ""
        if transactional_id is not None:
            query = f"transactional_id={quote(transactional_id, '')}"
        partition = self.controls[0].get(f"/coordinator?{query}")
        self.move_leader(partition["topic"], partition["partition"], broker)

    def rebalance(self, group: str) -> None:
        """Have all members of a classic group join again.

        raises  ControlFailed
        """
        partition = self.controls[0].get(f"/coordinator?group={quote(group, '')}")
        leader = self.replicas(partition["topic"], partition["partition"]).leader
        for control in self.controls:
            if control.get("/broker")["broker_id"] == leader:
                control.post(f"/groups/{quote(group, '')}/rebalance")
                return
        raise ControlFailed(f"the coordinator of {group}, broker {leader}, is not running")

    def requests(
        self, api: str | None = None, *, client_id: str | None = None
    ) -> Counter[SeenRequest]:
        """How many requests the running brokers have got since their start, or `forget_requests`.

        api        only of this API, such as Produce
        client_id  only of this client
        raises     ControlFailed when there is no such API
        """
        path = "/requests" if api is None else f"/requests?api={quote(api, '')}"
        counts: Counter[SeenRequest] = Counter()
        for control in self.controls:
            for row in control.get(path)["requests"]:
                seen = SeenRequest(row["api"], row["version"], row["client_id"])
                if client_id in (None, seen.client_id):
                    counts[seen] += row["count"]
        return counts

    def connections(self) -> Counter[ConnectedClient]:
        """How many connections are open at the running brokers; without those of brokers and of
        this handle.

        raises  ControlFailed
        """
        counts: Counter[ConnectedClient] = Counter()
        for control in self.controls:
            for row in control.get("/connections")["connections"]:
                client = ConnectedClient(*(row[name] for name in ConnectedClient._fields))
                if client.client_id != CLIENT_ID:
                    counts[client] += row["count"]
        return counts

    def forget_requests(self) -> None:
        """Count requests from zero again."""
        for control in self.controls:
            control.call("DELETE", "/requests")

    def roll(self, topic: str) -> None:
        """Begin a new segment in each log of a topic.

        raises  ControlFailed
        """
        for control in self.controls:
            control.post(f"/topics/{topic}/roll")

    def compact(self, topic: str) -> None:
        """Roll the logs of a compacted topic, and clean them; returns when they are cleaned.

        raises  ControlFailed
        """
        for control in self.controls:
            control.post(f"/topics/{topic}/compact")

    def retain(self) -> None:
        """Delete now what retention.ms and retention.bytes say.

        raises  ControlFailed
        """
        for control in self.controls:
            control.post("/retention")

    def close(self) -> None:
        """Close the connections of this handle."""
        with self._lock:
            self._drop_client()

    def _drop_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def client_security(self) -> ClientSecurity | None:
        """How the client of this handle connects; None: neither encrypted nor authenticated."""
        return None

    def with_client(self, act: Callable[[Client], T]) -> T:
        """Act with the client of this handle; a failed one is replaced at the next use."""
        from odradek.tools.client import Client

        with self._lock:
            if self._client is None:
                self._client = Client(
                    self.bootstrap_servers, client_id=CLIENT_ID, security=self.client_security()
                )
            try:
                return act(self._client)
            except BaseException:
                # A response may be under way on its connections.
                self._drop_client()
                raise


def _replicas(control: ControlClient, topic: str, partition: int) -> PartitionReplicas:
    rows = control.get(f"/topics/{topic}")["partitions"]
    (row,) = [row for row in rows if row["partition"] == partition]
    return PartitionReplicas(row["leader"], row["replicas"], row["in_sync"])
