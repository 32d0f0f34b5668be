"""A group for each client library, whose only member reads a topic while brokers die."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic

from confluent_kafka import Consumer, TopicPartition

from tests.clients.group_member import NEW_PROTOCOL
from tests.clients.members import Crew, Event, Member, Membership
from tests.support.watermarks import watermarks

SESSION_MS = 10_000
READ_WAIT_S = 180.0
REJOINS_MAX = 20


class Reading:
    """What one group has read and committed, over all memberships of its member.

    Every event is looked at once.
    """

    def __init__(self, name: str, group: str, assignor: str, member: Member) -> None:
        self.name = name
        self.group = group
        self.assignor = assignor
        self.member = member
        self.rejoined: list[str] = []
        """Why the library gave up, each time."""
        self.read: dict[int, set[int]] = {}
        self.committed: dict[int, int] = {}
        self.setbacks: list[str] = []
        """Reads below an offset that the coordinator had confirmed before."""
        self._seen: Membership | None = None
        self._position = 0

    def look(self) -> None:
        """Take what the member has reported since the last call."""
        now = self.member.now
        if now is not self._seen:
            self._seen, self._position = now, 0
        events = now.events[self._position :]
        self._position += len(events)
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        if event.kind == "read":
            partition = event.fields["partition"]
            offsets = event.fields["offsets"]
            confirmed = self.committed.get(partition, 0)
            if offsets and offsets[0] < confirmed:
                self.setbacks.append(f"{partition}: read {offsets[0]}, committed {confirmed}")
            self.read.setdefault(partition, set()).update(offsets)
        elif event.kind == "committed":
            for number, offset in event.fields["committed"].items():
                self.committed[int(number)] = offset

    def count(self) -> int:
        """How many records it has read."""
        self.look()
        return sum(len(offsets) for offsets in self.read.values())


class LibraryGroups:
    """Groups `group-<name>` of one member each.

    libraries  library and assignor by the name of the group
    """

    def __init__(
        self,
        libraries: Mapping[str, tuple[str, str]],
        bootstrap: str,
        topic: str,
        partitions: int,
        folder: Path,
    ) -> None:
        self.topic = topic
        self._crew = Crew(bootstrap, folder)
        self.readings: list[Reading] = []
        for name, (library, assignor) in libraries.items():
            group = f"group-{name}"
            if assignor != NEW_PROTOCOL:
                commit_start(bootstrap, group, topic, partitions)
            member = self._crew.take(library)
            member.join(topic, group, assignor, session_ms=SESSION_MS)
            self.readings.append(Reading(name, group, assignor, member))

    def _join_again(self) -> None:
        """Have members join whose libraries gave up; a test looks at how often."""
        for reading in self.readings:
            if reading.member.now.is_over or not reading.member.is_running:
                reading.look()
                reading.rejoined.append(reading.member.now.failure or "it ended")
                assert len(reading.rejoined) <= REJOINS_MAX, f"{reading.name}: {reading.rejoined}"
                if not reading.member.is_running:
                    reading.member = self._crew.take(reading.member.library)
                reading.member.join(
                    self.topic, reading.group, reading.assignor, session_ms=SESSION_MS
                )

    def wait_until_all_read(self, counts: Mapping[int, int]) -> None:
        """Until each group has read so many records of each partition, from offset 0 on."""
        expected = {number: set(range(count)) for number, count in counts.items() if count}
        left = dict.fromkeys(range(len(self.readings)))

        def is_done() -> bool:
            self._join_again()
            for number in list(left):
                reading = self.readings[number]
                reading.look()
                if all(offsets <= reading.read.get(at, set()) for at, offsets in expected.items()):
                    del left[number]
            return not left

        self._crew.wait_until(is_done, f"all groups have read {dict(counts)}", READ_WAIT_S)

    def wait_for_records(self) -> str:
        """Until each group has read more than now; returns which was the last."""
        before = [reading.count() for reading in self.readings]
        last = ""

        def has_more() -> bool:
            nonlocal last
            self._join_again()
            for reading, count in zip(self.readings, before, strict=True):
                if reading.count() <= count:
                    last = reading.name
                    return False
            return True

        self._crew.wait_until(has_more, "each group reads", READ_WAIT_S)
        return last

    def wait_until_committed(self, counts: Mapping[int, int]) -> None:
        """Until the coordinator of each group has confirmed the end of each partition."""
        ends = {number: count for number, count in counts.items() if count}

        def is_committed() -> bool:
            self._join_again()
            for reading in self.readings:
                reading.look()
            return all(reading.committed == ends for reading in self.readings)

        self._crew.wait_until(is_committed, f"each group has committed {ends}", READ_WAIT_S)

    def end(self) -> None:
        """All members leave."""
        self._crew.end_test()

    def close(self) -> None:
        """End the processes."""
        self._crew.close()


def commit_start(bootstrap: str, group: str, topic: str, partitions: int) -> None:
    """Commit offset 0, so that no library looks up where to start in the middle of a change."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [TopicPartition(topic, number, 0) for number in range(partitions)]
    try:
        consumer.commit(offsets=places, asynchronous=False)
    finally:
        consumer.close()


def read_values(bootstrap: str, topic: str, ends: Sequence[int]) -> dict[int, list[bytes]]:
    """The values in each partition up to its end, in the order of their offsets."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "error"})
    values: dict[int, list[bytes]] = {number: [] for number in range(len(ends))}
    try:
        for number, end in enumerate(ends):
            consumer.assign([TopicPartition(topic, number, 0)])
            deadline = monotonic() + READ_WAIT_S
            while len(values[number]) < end:
                assert monotonic() < deadline, f"partition {number} is not read to its end {end}"
                for record in consumer.consume(1_000, timeout=0.2):
                    error, value = record.error(), record.value()
                    assert error is None, error
                    assert isinstance(value, bytes)
                    values[number].append(value)
    finally:
        consumer.close()
    return values


def end_offsets(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """The high watermark of each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        return [
            watermarks(consumer, topic, number, timeout_s=READ_WAIT_S)[1]
            for number in range(partitions)
        ]
    finally:
        consumer.close()
