"""A chapter of the conversation: what was asked, by name, and what the broker answered."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.schema import schema_of
from tests.scripts.normal import Masks, normalise
from tests.support.wire import Closed, Wire, frame

SETTLE_TIMEOUT_S = 60.0
SETTLE_STEP_S = 0.02

VERSIONS: dict[ApiKey, range] = {
    ApiKey.PRODUCE: range(3, 12),
    ApiKey.FETCH: range(4, 18),
    ApiKey.LIST_OFFSETS: range(10),
    ApiKey.METADATA: range(13),
    ApiKey.LEADER_AND_ISR: range(8),
    ApiKey.STOP_REPLICA: range(5),
    ApiKey.UPDATE_METADATA: range(9),
    ApiKey.CONTROLLED_SHUTDOWN: range(4),
    ApiKey.OFFSET_COMMIT: range(10),
    ApiKey.OFFSET_FETCH: range(10),
    ApiKey.FIND_COORDINATOR: range(7),
    ApiKey.JOIN_GROUP: range(10),
    ApiKey.HEARTBEAT: range(5),
    ApiKey.LEAVE_GROUP: range(6),
    ApiKey.SYNC_GROUP: range(6),
    ApiKey.DESCRIBE_GROUPS: range(6),
    ApiKey.LIST_GROUPS: range(6),
    ApiKey.SASL_HANDSHAKE: range(2),
    ApiKey.API_VERSIONS: range(5),
    ApiKey.CREATE_TOPICS: range(8),
    ApiKey.DELETE_TOPICS: range(7),
    ApiKey.DELETE_RECORDS: range(3),
    ApiKey.INIT_PRODUCER_ID: range(6),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: range(5),
    ApiKey.ADD_PARTITIONS_TO_TXN: range(6),
    ApiKey.ADD_OFFSETS_TO_TXN: range(5),
    ApiKey.END_TXN: range(5),
    ApiKey.WRITE_TXN_MARKERS: range(2),
    ApiKey.TXN_OFFSET_COMMIT: range(5),
    ApiKey.DESCRIBE_ACLS: range(4),
    ApiKey.CREATE_ACLS: range(4),
    ApiKey.DELETE_ACLS: range(4),
    ApiKey.DESCRIBE_CONFIGS: range(5),
    ApiKey.ALTER_CONFIGS: range(3),
    ApiKey.ALTER_REPLICA_LOG_DIRS: range(3),
    ApiKey.DESCRIBE_LOG_DIRS: range(5),
    ApiKey.SASL_AUTHENTICATE: range(3),
    ApiKey.CREATE_PARTITIONS: range(4),
    ApiKey.CREATE_DELEGATION_TOKEN: range(4),
    ApiKey.RENEW_DELEGATION_TOKEN: range(3),
    ApiKey.EXPIRE_DELEGATION_TOKEN: range(3),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: range(4),
    ApiKey.DELETE_GROUPS: range(3),
    ApiKey.ELECT_LEADERS: range(3),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: range(2),
    ApiKey.OFFSET_DELETE: range(1),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: range(2),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: range(1),
    ApiKey.ALTER_PARTITION: range(4),
    ApiKey.DESCRIBE_CLUSTER: range(2),
    ApiKey.DESCRIBE_PRODUCERS: range(1),
    ApiKey.DESCRIBE_TRANSACTIONS: range(1),
    ApiKey.LIST_TRANSACTIONS: range(2),
}
"""What Apache Kafka 3.9.2 serves in ZooKeeper mode; of Produce and Fetch what knows batches v2."""

FOREVER = {"retention.ms": "-1"}
"""The records of the chapters are old: no retention may delete them while they are looked at."""


class Talk:
    """Asks a broker and writes down its responses, masked."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.steps: dict[str, Any] = {}
        self.masks = Masks()
        self._wires: list[Wire] = []
        self._wire = Wire(address)
        self.until(
            "the registration of the broker",
            lambda: self.quiet(metadata_of([]), 12),
            lambda response: bool(response.brokers) and response.controller_id >= 0,
        )

    def ask(self, name: str, request: Any, version: int) -> Any:
        """Ask and write down; the response, or None when the broker closed the connection."""
        key = schema_of(type(request)).api_key
        assert key is not None
        label = f"{name}, {ApiKey(key).name} v{version}"
        try:
            response = self._wire.call(request, version)
        except Closed:
            self.write(label, "closed")
            self._reconnect()
            return None
        except TimeoutError:
            raise AssertionError(f"no response to {label!r}: {request}") from None
        self.write_response(label, response, version)
        return response

    def write(self, label: str, content: Any) -> None:
        """Write down anything that is JSON."""
        assert label not in self.steps, f"two steps are called {label!r}"
        self.steps[label] = content

    def write_response(self, label: str, response: Any, version: int) -> None:
        """Write down a response that came in another way than by `ask`."""
        self.masks.step = label
        self.write(label, normalise(response, version, self.masks))

    def connect(self) -> Wire:
        """One more connection, which ends with the talk."""
        wire = Wire(self.address)
        self._wires.append(wire)
        return wire

    def quiet(self, request: Any, version: int) -> Any:
        """Ask without writing down: what prepares a step."""
        return self._wire.call(request, version)

    def tell(self, request: Any, version: int) -> None:
        """A request that gets no response (acks=0)."""
        self._wire.send(request, version)

    def raw(self, name: str, key: int, version: int, body: bytes) -> bytes | None:
        """Send any body; write down whether a response came (as hex) or the connection ended."""
        header = encode_request_header(key, version, 1, "wire")
        wire = Wire(self.address)
        try:
            wire.send_bytes(frame(header + body))
            response: bytes | None = wire.receive_frame()
        except Closed:
            response = None
        finally:
            wire.close()
        assert name not in self.steps, name
        self.steps[name] = "closed" if response is None else response.hex()
        return response

    def until(
        self,
        what: str,
        act: Callable[[], Any],
        good: Callable[[Any], bool],
        *,
        patience_s: float = SETTLE_TIMEOUT_S,
        must: bool = True,
    ) -> Any:
        """Repeat a quiet act until its response is good: some changes need a moment to be seen.

        must  False: go on without it, and let the recorded responses show it
        """
        deadline = time.monotonic() + patience_s
        while True:
            response = act()
            if good(response):
                return response
            if time.monotonic() >= deadline:
                assert not must, f"{what} did not happen: {response}"
                return response
            time.sleep(SETTLE_STEP_S)

    def make_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: dict[str, str] | None = None,
        replication_factor: int = 1,
    ) -> Any:
        """A topic that can serve; its id."""
        merged = {**FOREVER, **(configs or {})}
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in merged.items()],
        )
        made = self.quiet(CreateTopicsRequest(topics=[topic]), 7)
        assert made.topics[0].error_code == 0, made
        self.wait_for_topic(name, partitions)
        self.masks.give("topic", made.topics[0].topic_id, name)
        return made.topics[0].topic_id

    def wait_for_topic(self, name: str, partitions: int) -> None:
        """Until every partition has a leader that the broker knows of."""
        self.until(
            f"topic {name}",
            lambda: self.quiet(metadata_of([name]), 12).topics[0],
            lambda topic: (
                len(topic.partitions) == partitions
                and all(partition.error_code == 0 for partition in topic.partitions)
            ),
        )

    def wait_for_absence(self, name: str) -> None:
        """Until a deleted topic is gone from the metadata."""
        self.until(
            f"the end of topic {name}",
            lambda: self.quiet(metadata_of([name]), 12).topics[0],
            lambda topic: topic.error_code == 3,
        )

    def _reconnect(self) -> None:
        self._wire.close()
        self._wire = Wire(self.address)

    def close(self) -> None:
        """End all connections."""
        for wire in (self._wire, *self._wires):
            wire.close()


def metadata_of(names: Sequence[str]) -> MetadataRequest:
    """Asks for topics by name and creates none."""
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
    )


def versions_of(request: type) -> range:
    """The versions in which a chapter asks its question."""
    key = schema_of(request).api_key
    assert key is not None
    return VERSIONS[ApiKey(key)]
