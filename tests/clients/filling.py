"""A topic with numbered records, and checks of the group that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.clients.confluent_client import Confluent
from tests.clients.contract import How, Message
from tests.clients.members import SESSION_MS, Crew, Member, Place, is_shared
from tests.clients.records import BASE_MS

RECORDS = 10


class Filling:
    """Writes records to its topic and knows all of them."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.topic = topic
        self.group = f"{topic}-group"
        self.partitions = partitions
        self.count = 0
        self._client = Confluent(bootstrap)
        self._client.create_topic(topic, partitions)
        self._begin(bootstrap)

    def _begin(self, bootstrap: str) -> None:
        """Commit the start of every partition for the group.

        Without it librdkafka looks up the start.  When the partition is revoked and assigned again
        meanwhile, the late response resets it to the start (confluent-kafka-dotnet issue 1792).
        """
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": self.group})
        places = [TopicPartition(self.topic, number, 0) for number in range(self.partitions)]
        try:
            consumer.commit(offsets=places, asynchronous=False)
        finally:
            consumer.close()

    def add(self, count: int = RECORDS) -> None:
        """Write `count` records to each partition."""
        numbers = range(self.count, self.count + count)
        messages = [
            Message(partition, BASE_MS + number, None, b"%d" % number)
            for partition, number in product(range(self.partitions), numbers)
        ]
        self._client.produce(self.topic, messages, How(acks="all"))
        self.count += count

    def places(self) -> list[Place]:
        """Every record, sorted."""
        return list(product(range(self.partitions), range(self.count)))

    def gather(
        self,
        crew: Crew,
        libraries: Sequence[str],
        assignor: str = "range",
        *,
        session_ms: int = SESSION_MS,
    ) -> list[Member]:
        """Start a member of each library; returns when they share the partitions."""
        members = self.start(crew, libraries, assignor, session_ms)
        self.wait_until_shared(crew, members)
        return members

    def start(
        self, crew: Crew, libraries: Sequence[str], assignor: str, session_ms: int
    ) -> list[Member]:
        """Start a member of each library; returns at once."""
        members = [crew.take(library) for library in libraries]
        for member in members:
            member.join(self.topic, self.group, assignor, session_ms=session_ms)
        return members

    def wait_until_shared(self, crew: Crew, members: Sequence[Member]) -> None:
        """Wait until each partition has one owner, and members have equal counts within one."""
        crew.wait_until(
            lambda: is_shared(members, self.partitions),
            f"{len(members)} members share {self.partitions} partitions",
        )

    def wait_until_committed(self, crew: Crew, members: Sequence[Member]) -> None:
        """Wait until the members have committed the end of every partition."""

        def is_committed() -> bool:
            last: dict[int, int] = {}
            for member in members:
                for number, offset in member.now.committed.items():
                    last[number] = max(offset, last.get(number, 0))
            return last == dict.fromkeys(range(self.partitions), self.count)

        crew.wait_until(is_committed, f"all {self.count} records of each partition are committed")


def commit(group: str, topic: str, **fields: Any) -> OffsetCommitRequest:
    """An OffsetCommit request for partition 0."""
    metadata = fields.pop("metadata", None)
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=metadata
    )
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    return OffsetCommitRequest(group_id=group, topics=topics, **fields)
