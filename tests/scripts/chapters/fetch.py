"""Fetch: places, limits, epochs and errors, without sessions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.schema import ZERO_UUID
from tests.scripts.chapters import batches
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.talk import Talk, versions_of

NAME = "fetch"
IDS_FROM = 13
UNKNOWN_ID = UUID(int=0x1234567890)
MANY = 1 << 20


def fetch_request(
    topic: str,
    topic_id: UUID,
    offset: int,
    *,
    partition: int = 0,
    limit: int = MANY,
    more: dict[str, Any] | None = None,
    **options: Any,
) -> FetchRequest:
    """One partition; `more` are fields of the partition, options those of the request."""
    partition_request = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=limit, **(more or {})
    )
    topics = [FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition_request])]
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 0, "topics": topics, **options})


def play(talk: Talk) -> None:
    """Six batches of two records in partition 0, none in partition 1."""
    topic_id = talk.make_topic(NAME, 2)
    for number in range(6):
        content = batch(2, first=2 * number, codec=(0, 1)[number % 2])
        talk.quiet(produce_request(NAME, content), 9)

    def ask(label: str, offset: int, version: int = 12, **options: Any) -> None:
        talk.ask(label, fetch_request(NAME, topic_id, offset, **options), version)

    for version in versions_of(FetchRequest):
        ask("from the start", 0, version)
        ask("from inside a batch", 7, version)
        ask("at the end", 12, version)
        ask("behind the end", 13, version)
        ask("an unknown partition", 0, version, partition=9)
        name, unknown = (
            ("never-made", UNKNOWN_ID) if version >= IDS_FROM else ("never-made", ZERO_UUID)
        )
        talk.ask("an unknown topic", fetch_request(name, unknown, 0), version)
    ask("before the start", -5)
    ask("an empty partition", 0, partition=1)
    ask("a partition below zero", 0, partition=-1)
    limits(ask)
    epochs(ask)
    others(talk, topic_id)


def limits(ask: Any) -> None:
    """Bytes and waiting."""
    for limit in (0, 1, 100, 101, 200, 400):
        ask(f"at most {limit} bytes of the partition", 0, limit=limit)
        ask(f"at most {limit} bytes of the response", 0, max_bytes=limit)
    ask("more than there is, without waiting", 0, min_bytes=MANY, max_wait_ms=0)
    ask("more than there is, with a wait", 0, min_bytes=MANY, max_wait_ms=50)
    ask("one byte at the end, with a wait", 12, min_bytes=1, max_wait_ms=50)
    ask("a negative wait", 12, min_bytes=1, max_wait_ms=-5)
    ask("read committed", 0, isolation_level=1)
    ask("an isolation level that is not there", 0, isolation_level=7)
    ask("from another rack", 0, rack_id="far-away")


def epochs(ask: Any) -> None:
    """Leader epochs of the asker."""
    for epoch in (-1, 0, 1, 5):
        ask(f"leader epoch {epoch}", 0, 12, more={"current_leader_epoch": epoch})
        ask(f"leader epoch {epoch}", 0, 16, more={"current_leader_epoch": epoch})
        ask(f"leader epoch {epoch}", 0, 9, more={"current_leader_epoch": epoch})
    for epoch in (0, 3):
        ask(f"last fetched epoch {epoch}", 4, 12, more={"last_fetched_epoch": epoch})
        ask(
            f"last fetched epoch {epoch} behind the end", 99, 12, more={"last_fetched_epoch": epoch}
        )


def others(talk: Talk, topic_id: UUID) -> None:
    """Several partitions, replicas, a batch that is larger than every limit."""
    parts = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=MANY)
        for number in (1, 0, 5)
    ]
    several = FetchTopic(topic=NAME, topic_id=topic_id, partitions=parts)
    for version in (4, 12, 13):
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[several])
        talk.ask("several partitions", request, version)
    twice = FetchTopic(topic=NAME, topic_id=topic_id, partitions=[parts[1], parts[1]])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[twice])
    talk.ask("a partition twice", request, 12)
    talk.ask("nothing", FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]), 12)
    orders(talk, topic_id)
    follower = fetch_request(NAME, topic_id, 0, replica_id=7)
    talk.ask("a follower that is no replica", follower, 12)
    debugger = fetch_request(NAME, topic_id, 0, replica_id=-2)
    talk.ask("a debugging consumer", debugger, 12)

    talk.make_topic("fetch-large")
    for _ in range(2):
        talk.quiet(produce_request("fetch-large", batches.big_batch(5_000)), 9)
    for limit in (1, 5_000, 6_000, 20_000):
        request = fetch_request("fetch-large", ZERO_UUID, 0, limit=limit, max_bytes=limit)
        talk.ask(f"large batches, at most {limit} bytes", request, 12)


def orders(talk: Talk, topic_id: UUID) -> None:
    """Topics that are named in turn; those that do not exist come last."""
    ids = {NAME: topic_id, "fetch-other": talk.make_topic("fetch-other", 2)}

    def request(version: int, *places: tuple[str, int]) -> FetchRequest:
        unknown = UNKNOWN_ID if version >= IDS_FROM else ZERO_UUID
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            topics=[
                FetchTopic(
                    topic=name,
                    topic_id=ids.get(name, unknown),
                    partitions=[
                        FetchPartition(partition=index, fetch_offset=12, partition_max_bytes=MANY)
                    ],
                )
                for name, index in places
            ],
        )

    other = "fetch-other"
    for version in (4, 12, 13):
        for label, places in (
            ("in turn", [(NAME, 0), (other, 0), (NAME, 1), (other, 1)]),
            ("one after the other", [(other, 1), (other, 0), (NAME, 1), (NAME, 0)]),
            ("a partition again", [(NAME, 0), (other, 0), (NAME, 0)]),
            ("an unknown one first", [("never-made", 0), (NAME, 0), (NAME, 9), (other, 0)]),
        ):
            talk.ask(f"topics {label}", request(version, *places), version)
