"""Members of consumer groups with the Python libraries, controlled by the protocol in README.md.

    python -m tests.clients.group_member LIBRARY --bootstrap HOST:PORT

The command `group` starts a member, which reports its events as lines of JSON.
"""

from __future__ import annotations

import asyncio
import json
import queue
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

with warnings.catch_warnings():
    # Its import calls a function that Python 3.11 deprecates and 3.13 does not.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.coordinator.assignors.cooperative_sticky
    import kafka.coordinator.assignors.range
    import kafka.coordinator.assignors.roundrobin
    import kafka.errors

import aiokafka
import aiokafka.coordinator.assignors.range
import aiokafka.coordinator.assignors.roundrobin
import aiokafka.errors
import confluent_kafka

POLL_MS = 50
MAX_POLL_INTERVAL_MS = 30_000
HEARTBEATS_PER_SESSION = 8
NEW_PROTOCOL = "consumer"
"""Instead of an assignor: the broker assigns, and sets the heartbeat interval."""

T = TypeVar("T")


class Membership(NamedTuple):
    """The arguments of the command `group`."""

    topic: str
    group: str
    assignor: str
    instance_id: str | None
    session_ms: int

    @property
    def heartbeat_ms(self) -> int:
        """The heartbeat interval, short enough that a busy machine does not end the session."""
        return self.session_ms // HEARTBEATS_PER_SESSION


def report(**fields: object) -> None:
    """Print a line for the test."""
    print(json.dumps(fields), flush=True)


class Member(ABC):
    """A running member: its partitions and its read offsets."""

    def __init__(self) -> None:
        self.owned: set[int] = set()
        self.positions: dict[int, int] = {}

    @abstractmethod
    def poll(self) -> Mapping[int, list[int]]:
        """Poll; returns the offsets of the records by partition."""

    @abstractmethod
    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit; returns when the offsets are stored, raises one of `REFUSALS`."""

    @abstractmethod
    def named(self) -> tuple[int, str]:
        """The generation and the member id."""

    @abstractmethod
    def close(self) -> None:
        """Leave, unless static."""

    def assigned(self, partitions: Iterable[Any]) -> None:
        """Callback: the library has assigned these partitions in addition."""
        numbers = sorted(each.partition for each in partitions)
        self.owned.update(numbers)
        self._tell_owned("assigned", numbers)

    def revoked(self, partitions: Iterable[Any]) -> None:
        """Callback: the library revokes these partitions."""
        self._taken("revoked", partitions)

    def lost(self, partitions: Iterable[Any]) -> None:
        """Callback: these partitions may have another owner already."""
        self._taken("lost", partitions)

    def _taken(self, event: str, partitions: Iterable[Any]) -> None:
        numbers = sorted(each.partition for each in partitions)
        self.owned.difference_update(numbers)
        for number in numbers:
            self.positions.pop(number, None)
        self._tell_owned(event, numbers)

    def _tell_owned(self, event: str, numbers: list[int]) -> None:
        generation, name = self.named()
        owned = sorted(self.owned)
        report(event=event, partitions=numbers, owned=owned, generation=generation, member=name)


class KafkaPythonMember(Member, kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """kafka-python."""

    ASSIGNORS = {
        "range": kafka.coordinator.assignors.range.RangePartitionAssignor,
        "roundrobin": kafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor,
        "cooperative-sticky": (
            kafka.coordinator.assignors.cooperative_sticky.CooperativeStickyAssignor
        ),
    }

    def __init__(self, address: str, membership: Membership) -> None:
        super().__init__()
        self._topic = membership.topic
        self._consumer: Any = kafka.KafkaConsumer(
            bootstrap_servers=address,
            group_id=membership.group,
            group_instance_id=membership.instance_id,
            partition_assignment_strategy=[self.ASSIGNORS[membership.assignor]],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=membership.session_ms,
            heartbeat_interval_ms=membership.heartbeat_ms,
            max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
            reconnect_backoff_max_ms=200,
        )
        self._consumer.subscribe([membership.topic], listener=self)

    on_partitions_assigned = Member.assigned
    on_partitions_revoked = Member.revoked
    on_partitions_lost = Member.lost

    def poll(self) -> Mapping[int, list[int]]:
        """Poll for a moment.

        When a join takes longer than one poll and ends in the next, the library (3.0.12) stops
        sending heartbeats.  So every join is completed before the next poll.
        """
        coordinator = self._consumer._coordinator
        while coordinator.need_rejoin() or coordinator._join_task is not None:
            coordinator.rejoin_needed = True
            coordinator.ensure_active_group(timeout_ms=MAX_POLL_INTERVAL_MS)
        polled = self._consumer.poll(POLL_MS)
        return {
            each.partition: [record.offset for record in records]
            for each, records in polled.items()
        }

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit with one request."""
        self._consumer.commit(
            {
                kafka.TopicPartition(self._topic, number): kafka.OffsetAndMetadata(offset, "", -1)
                for number, offset in offsets.items()
            }
        )

    def named(self) -> tuple[int, str]:
        """The generation and member id of the coordinator, in any state."""
        generation = self._consumer._coordinator._generation
        return generation.generation_id, generation.member_id

    def close(self) -> None:
        """Leave without a commit."""
        self._consumer.close(autocommit=False)


class ConfluentMember(Member):
    """confluent-kafka, a binding of librdkafka."""

    def __init__(self, address: str, membership: Membership) -> None:
        super().__init__()
        self._topic = membership.topic
        settings: dict[str, Any] = {
            "bootstrap.servers": address,
            "group.id": membership.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "max.poll.interval.ms": MAX_POLL_INTERVAL_MS,
            "reconnect.backoff.max.ms": 200,
        }
        if membership.assignor == NEW_PROTOCOL:
            settings["group.protocol"] = NEW_PROTOCOL
        else:
            settings["partition.assignment.strategy"] = membership.assignor
            settings["session.timeout.ms"] = membership.session_ms
            settings["heartbeat.interval.ms"] = membership.heartbeat_ms
        if membership.instance_id is not None:
            settings["group.instance.id"] = membership.instance_id
        self._consumer: Any = confluent_kafka.Consumer(settings)
        self._consumer.subscribe(
            [membership.topic],
            on_assign=lambda _, given: self.assigned(given),
            on_revoke=lambda _, taken: self.revoked(taken),
            on_lost=lambda _, taken: self.lost(taken),
        )

    def poll(self) -> Mapping[int, list[int]]:
        """Poll for a moment; a fatal error is raised."""
        polled: dict[int, list[int]] = {}
        for message in self._consumer.consume(500, POLL_MS / 1000):
            if message.error() is None:
                polled.setdefault(message.partition(), []).append(message.offset())
            elif message.error().code() == confluent_kafka.KafkaError._FATAL:
                raise confluent_kafka.KafkaException(message.error())
        return polled

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit with one request; errors of partitions are raised."""
        stored = self._consumer.commit(
            offsets=[
                confluent_kafka.TopicPartition(self._topic, number, offset)
                for number, offset in offsets.items()
            ],
            asynchronous=False,
        )
        for each in stored:
            if each.error is not None:
                raise confluent_kafka.KafkaException(each.error)

    def named(self) -> tuple[int, str]:
        """The generation is only available in the group metadata for transactional producers."""
        metadata = self._consumer.consumer_group_metadata()
        generation = metadata.removeprefix(b"CGMDv2:")[:4]
        return int.from_bytes(generation, sys.byteorder, signed=True), self._consumer.memberid()

    def close(self) -> None:
        """Leave; the partitions are revoked first."""
        self._consumer.close()


class AioKafkaMember(Member, aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """aiokafka, on an event loop that runs during calls only."""

    ASSIGNORS = {
        "range": aiokafka.coordinator.assignors.range.RangePartitionAssignor,
        "roundrobin": aiokafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor,
    }

    def __init__(self, address: str, membership: Membership) -> None:
        super().__init__()
        self._topic = membership.topic
        self._loop = asyncio.new_event_loop()
        self._consumer: Any = self._run(self._start(address, membership))

    async def _start(self, address: str, membership: Membership) -> Any:
        consumer: Any = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=address,
            group_id=membership.group,
            group_instance_id=membership.instance_id,
            partition_assignment_strategy=[self.ASSIGNORS[membership.assignor]],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=membership.session_ms,
            heartbeat_interval_ms=membership.heartbeat_ms,
            max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
        )
        self._consumer = consumer
        consumer.subscribe([membership.topic], listener=self)
        await consumer.start()
        return consumer

    def _run(self, awaited: Awaitable[T]) -> T:
        return self._loop.run_until_complete(awaited)

    on_partitions_assigned = Member.assigned
    on_partitions_revoked = Member.revoked

    def poll(self) -> Mapping[int, list[int]]:
        """Poll for a moment."""
        polled = self._run(self._consumer.getmany(timeout_ms=POLL_MS))
        return {
            each.partition: [record.offset for record in records]
            for each, records in polled.items()
        }

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit with one request."""
        self._run(
            self._consumer.commit(
                {
                    aiokafka.TopicPartition(self._topic, number): offset
                    for number, offset in offsets.items()
                }
            )
        )

    def named(self) -> tuple[int, str]:
        """The generation and member id of the coordinator, in any state."""
        coordinator = self._consumer._coordinator
        return coordinator.generation, coordinator.member_id

    def close(self) -> None:
        """Leave without a commit."""
        self._run(self._consumer.stop())
        self._loop.close()


LIBRARIES: dict[str, type[KafkaPythonMember | ConfluentMember | AioKafkaMember]] = {
    "kafka-python": KafkaPythonMember,
    "confluent-kafka": ConfluentMember,
    "aiokafka": AioKafkaMember,
}
REFUSALS = (
    kafka.errors.KafkaError,
    aiokafka.errors.KafkaError,
    aiokafka.errors.IllegalStateError,
    confluent_kafka.KafkaException,
    AssertionError,  # kafka-python and aiokafka, when a partition has been revoked
)


def commit(member: Member, offsets: Mapping[int, int]) -> None:
    """Commit and report the result."""
    if not offsets:
        report(event="refused", error="it has nothing to commit", committed={})
        return
    try:
        member.commit(offsets)
    except REFUSALS as refusal:
        report(event="refused", error=repr(refusal), committed=dict(offsets))
    else:
        report(event="committed", committed=dict(offsets), generation=member.named()[0])


def live(member: Member, commands: queue.SimpleQueue[str]) -> None:
    """Read and commit until the command `leave`."""
    while True:
        for partition, offsets in member.poll().items():
            report(event="read", partition=partition, offsets=offsets)
            member.positions[partition] = offsets[-1] + 1
            commit(member, {partition: offsets[-1] + 1})
        try:
            command = commands.get_nowait()
        except queue.Empty:
            continue
        if command == "commit":
            commit(member, dict(member.positions))
        elif command in ("leave", ""):
            member.close()
            return


def read_lines(commands: queue.SimpleQueue[str]) -> None:
    """Put the lines of the input into the queue, and an empty line at its end."""
    for line in sys.stdin:
        commands.put(line.strip())
    commands.put("")


def main() -> None:
    """Run commands until the end of the input."""
    library, option, address = sys.argv[1:]
    assert option == "--bootstrap", option
    commands: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=read_lines, args=(commands,), daemon=True).start()
    while line := commands.get():
        name, topic, group, assignor, instance, session_ms = line.split(" ")
        assert name == "group", line
        instance_id = None if instance == "-" else instance
        membership = Membership(topic, group, assignor, instance_id, int(session_ms))
        try:
            live(LIBRARIES[library](address, membership), commands)
        except REFUSALS as failure:
            report(error=repr(failure))
        else:
            report(done=True)


if __name__ == "__main__":
    main()
