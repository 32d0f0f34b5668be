"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.scripts.chapters.batches import MINUTE_MS, batch, produce_request
from tests.scripts.normal import FIXED_MS
from tests.scripts.talk import Talk, versions_of

NAME = "offsets"
LATEST, EARLIEST, LARGEST, EARLIEST_LOCAL, LATEST_TIERED = range(-1, -6, -1)


def play(talk: Talk) -> None:
    """Ten records a minute apart in partition 0, shuffled by batches; none in partition 1."""
    talk.make_topic(NAME, 3)
    for first, codec in ((4, 0), (0, 1), (8, 3), (2, 0), (6, 4)):
        talk.quiet(produce_request(NAME, batch(2, first=first, codec=codec)), 9)
    list_offsets(talk)
    leader_epochs(talk)
    delete_records(talk)


def where(
    timestamp_ms: int, *, partition: int = 0, topic: str = NAME, epoch: int = -1, isolation: int = 0
) -> ListOffsetsRequest:
    """One question."""
    asked = ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=epoch, timestamp_ms=timestamp_ms
    )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
    )


def list_offsets(talk: Talk) -> None:
    """Places by name and by time."""
    for version in versions_of(ListOffsetsRequest):
        for label, timestamp_ms in (
            ("latest", LATEST),
            ("earliest", EARLIEST),
            ("a time in the middle", FIXED_MS + 5 * MINUTE_MS),
            ("a time behind all records", FIXED_MS + 99 * MINUTE_MS),
            ("largest timestamp", LARGEST),
            ("earliest local", EARLIEST_LOCAL),
            ("latest tiered", LATEST_TIERED),
        ):
            talk.ask(label, where(timestamp_ms), version)
        talk.ask("an unknown topic", where(LATEST, topic="never-made"), version)
        talk.ask("an unknown partition", where(LATEST, partition=9), version)
        if version >= 4:
            for epoch in (0, 1, 7):
                talk.ask(f"leader epoch {epoch}", where(LATEST, epoch=epoch), version)
        if version >= 2:
            talk.ask("read committed", where(LATEST, isolation=1), version)
    for minute in range(11):
        request = where(FIXED_MS + minute * MINUTE_MS)
        talk.ask(f"the record at minute {minute}", request, 7)
        request = where(FIXED_MS + minute * MINUTE_MS - 1)
        talk.ask(f"just before minute {minute}", request, 7)
    for label, timestamp_ms in (
        ("empty: latest", LATEST),
        ("empty: earliest", EARLIEST),
        ("empty: a time", FIXED_MS),
        ("empty: largest timestamp", LARGEST),
    ):
        talk.ask(label, where(timestamp_ms, partition=1), 7)
    talk.ask("a time of zero", where(0), 7)
    talk.ask("a special time that is not there", where(-77), 7)
    twice = where(LATEST)
    twice.topics[0].partitions *= 2
    talk.ask("a partition twice", twice, 7)
    follower = where(LATEST)
    follower.replica_id = 5
    talk.ask("a replica that is none", follower, 7)
    debugger = where(LATEST)
    debugger.replica_id = -2
    talk.ask("a debugging consumer", debugger, 7)


def leader_epochs(talk: Talk) -> None:
    """Where epochs ended."""
    for version in versions_of(OffsetForLeaderEpochRequest):
        for label, name, partition, epoch, current in (
            ("epoch 0", NAME, 0, 0, -1),
            ("epoch 5", NAME, 0, 5, -1),
            ("epoch -1", NAME, 0, -1, -1),
            ("epoch 0 of an empty log", NAME, 1, 0, -1),
            ("an unknown topic", "never-made", 0, 0, -1),
            ("an unknown partition", NAME, 9, 0, -1),
            ("the current epoch is 0", NAME, 0, 0, 0),
            ("the current epoch is 3", NAME, 0, 0, 3),
        ):
            asked = OffsetForLeaderPartition(
                partition=partition, current_leader_epoch=current, leader_epoch=epoch
            )
            request = OffsetForLeaderEpochRequest(
                replica_id=-1, topics=[OffsetForLeaderTopic(topic=name, partitions=[asked])]
            )
            talk.ask(label, request, version)


def delete_records(talk: Talk) -> None:
    """The start of partition 0 moves on."""

    def request(offset: int, name: str = NAME, partition: int = 0) -> DeleteRecordsRequest:
        asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
        topic = DeleteRecordsTopic(name=name, partitions=[asked])
        return DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)

    for version in versions_of(DeleteRecordsRequest):
        talk.ask("up to a record", request(2 + version), version)
        talk.ask("backwards", request(1), version)
        talk.ask("behind the end", request(99), version)
        talk.ask("below -1", request(-2), version)
        talk.ask("of an unknown topic", request(0, "never-made"), version)
        talk.ask("of an unknown partition", request(0, NAME, 9), version)
    talk.ask("earliest after it", where(EARLIEST), 7)
    talk.ask("a time that is deleted", where(FIXED_MS + 4 * MINUTE_MS), 7)
    talk.ask("everything", request(-1), 2)
    talk.ask("of an empty partition", request(-1, NAME, 1), 2)
    talk.ask("earliest after everything", where(EARLIEST), 7)
    talk.ask("largest timestamp after everything", where(LARGEST), 7)
    talk.make_topic("offsets-compacted", configs={"cleanup.policy": "compact"})
    talk.ask("of a compacted topic", request(0, "offsets-compacted"), 2)
