"""Transactions as partitions see them: batches, markers, what read_committed consumers get.

No transaction coordinator takes part: the verification of partitions is off, and the markers come
from this script.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.protocol.schema import ZERO_UUID
from tests.scripts.chapters.batches import batch, produce_request, produce_to
from tests.scripts.chapters.fetch import fetch_request
from tests.scripts.chapters.offsets import EARLIEST, LATEST, where
from tests.scripts.chapters.producers import new_id, request_id
from tests.scripts.normal import FIXED_MS
from tests.scripts.talk import Talk, versions_of

NAME = "transactions"
PRODUCE_VERSION = 9
FETCH_VERSION = 12
COMMITTED = 1
MARKERS = 1


def play(talk: Talk) -> None:
    """One partition for each subject."""
    talk.until(
        "the first producer id", lambda: request_id(talk), lambda response: response.error_code == 0
    )
    talk.make_topic(NAME, 8)
    batches(talk)
    markers(talk)
    fencing(talk)
    interleaved(talk)
    several(talk)
    log_start(talk)
    settings(talk)


def marker(
    producer_id: int,
    *places: tuple[str, int],
    epoch: int = 0,
    coordinator_epoch: int = 0,
    is_commit: bool = True,
) -> WritableTxnMarker:
    """The end of one transaction in some partitions."""
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=is_commit,
        coordinator_epoch=coordinator_epoch,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=p) for name, p in topics.items()
        ],
    )


def end(talk: Talk, label: str, *ended: WritableTxnMarker, version: int = MARKERS) -> Any:
    """Markers in one request."""
    return talk.ask(label, WriteTxnMarkersRequest(markers=list(ended)), version)


def send(
    talk: Talk,
    label: str,
    producer_id: int,
    sequence: int,
    *,
    partition: int = 0,
    epoch: int = 0,
    topic: str = NAME,
    transactional_id: str | None = "tx",
    **options: Any,
) -> None:
    """Two records."""
    content = batch(
        2,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=options.pop("is_transactional", True),
        **options,
    )
    request = produce_request(
        topic, content, partition=partition, transactional_id=transactional_id
    )
    talk.ask(label, request, PRODUCE_VERSION)


def look(
    talk: Talk, label: str, partition: int, *, topic: str = NAME, topic_id: UUID = ZERO_UUID
) -> None:
    """What consumers of both kinds get, where the log ends for them, and its producers."""
    for isolation, kind in ((0, "uncommitted"), (COMMITTED, "committed")):
        request = fetch_request(topic, topic_id, 0, partition=partition, isolation_level=isolation)
        talk.ask(f"{label}: read {kind}", request, FETCH_VERSION)
        latest = where(LATEST, partition=partition, topic=topic, isolation=isolation)
        talk.ask(f"{label}: latest {kind}", latest, 6)
    described = DescribeProducersRequest(
        topics=[TopicRequest(name=topic, partition_indexes=[partition])]
    )
    talk.ask(f"{label}: producers", described, 0)


def batches(talk: Talk) -> None:
    """Which batches may be part of a transaction; partition 0."""
    producer_id = new_id(talk, "one")
    for version in range(3, 12):
        request = produce_request(
            NAME,
            batch(
                1,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=version - 3,
                is_transactional=True,
            ),
            transactional_id="tx",
        )
        talk.ask("a transactional batch", request, version)
    send(talk, "two more", producer_id, 9)
    send(talk, "the same again", producer_id, 9)
    send(talk, "a gap", producer_id, 100)
    send(talk, "outside of the transaction", producer_id, 11, is_transactional=False)
    send(talk, "without a transactional id", producer_id, 11, transactional_id=None)
    send(talk, "an empty transactional id", producer_id, 11, transactional_id="")
    send(talk, "a control batch", producer_id, 13, is_control=True)
    send(talk, "a sequence below zero", producer_id, -1)
    send(talk, "no producer id", -1, -1, epoch=-1)
    send(talk, "no producer id and no transaction", -1, -1, epoch=-1, is_transactional=False)
    other_id = new_id(talk, "two")
    send(talk, "another producer that is idempotent only", other_id, 0, is_transactional=False)
    both = [
        (
            NAME,
            index,
            batch(1, producer_id=id_, producer_epoch=0, base_sequence=at, is_transactional=True),
        )
        for index, id_, at in ((1, other_id, 0), (0, producer_id, 13))
    ]
    talk.ask("of two producers", produce_to(both, transactional_id="tx"), PRODUCE_VERSION)
    look(talk, "an open transaction", 0)
    for version in versions_of(WriteTxnMarkersRequest):
        end(talk, "a commit", marker(producer_id, (NAME, 0)), version=version)
    look(talk, "a committed transaction", 0)


def markers(talk: Talk) -> None:
    """Where markers may be appended; partition 2."""
    producer_id = new_id(talk, "of markers")
    for version in versions_of(WriteTxnMarkersRequest):
        end(talk, "without a transaction", marker(producer_id, (NAME, 2)), version=version)
        end(talk, "an unknown partition", marker(producer_id, (NAME, 99)), version=version)
        end(talk, "an unknown topic", marker(producer_id, ("never-made", 0)), version=version)
        end(talk, "no markers", version=version)
        end(talk, "no partitions", marker(producer_id), version=version)
    end(talk, "one of two is unknown", marker(producer_id, (NAME, 2), (NAME, 99)))
    send(talk, "the first batch", producer_id, 0, partition=2)
    end(talk, "an abort", marker(producer_id, (NAME, 2), is_commit=False))
    end(talk, "the abort again", marker(producer_id, (NAME, 2), is_commit=False))
    send(talk, "the next transaction", producer_id, 2, partition=2)
    send(talk, "its second batch", producer_id, 4, partition=2)
    end(talk, "its commit", marker(producer_id, (NAME, 2)))
    look(talk, "after markers", 2)
    for offset in range(1, 12, 2):
        request = fetch_request(NAME, ZERO_UUID, offset, partition=2, isolation_level=COMMITTED)
        talk.ask(f"read committed from {offset}", request, FETCH_VERSION)


def fencing(talk: Talk) -> None:
    """Epochs of producers and of coordinators; partition 3."""
    producer_id = new_id(talk, "fenced")
    place = (NAME, 3)
    send(talk, "epoch 5", producer_id, 0, partition=3, epoch=5)
    end(talk, "a marker of epoch 4", marker(producer_id, place, epoch=4))
    end(talk, "an abort of epoch 6", marker(producer_id, place, epoch=6, is_commit=False))
    send(talk, "epoch 5 after the abort", producer_id, 2, partition=3, epoch=5)
    send(talk, "epoch 6, not from 0", producer_id, 2, partition=3, epoch=6)
    send(talk, "epoch 6, from 0", producer_id, 0, partition=3, epoch=6)
    end(talk, "of coordinator epoch 3", marker(producer_id, place, epoch=6, coordinator_epoch=3))
    send(talk, "another transaction", producer_id, 2, partition=3, epoch=6)
    end(talk, "of coordinator epoch 2", marker(producer_id, place, epoch=6, coordinator_epoch=2))
    end(talk, "of coordinator epoch -1", marker(producer_id, place, epoch=6, coordinator_epoch=-1))
    look(talk, "a fenced coordinator", 3)
    end(
        talk,
        "of coordinator epoch 3 again",
        marker(producer_id, place, epoch=6, coordinator_epoch=3),
    )
    send(talk, "epoch 7 in the same transaction", producer_id, 0, partition=3, epoch=7)
    send(talk, "epoch 8 before the marker", producer_id, 0, partition=3, epoch=8)
    end(talk, "of epoch 7 after epoch 8", marker(producer_id, place, epoch=7, coordinator_epoch=3))
    end(talk, "of epoch 8", marker(producer_id, place, epoch=8, coordinator_epoch=3))
    end(talk, "of a producer that never wrote", marker(987_654, place, epoch=3))
    look(talk, "after fencing", 3)


def interleaved(talk: Talk) -> None:
    """Transactions that overlap, committed and aborted; partition 4."""
    place = (NAME, 4)
    ids = [new_id(talk, f"interleaved {number}") for number in range(4)]
    for round_number in range(3):
        for number, producer_id in enumerate(ids):
            send(
                talk,
                f"{number} in round {round_number}",
                producer_id,
                2 * round_number,
                partition=4,
            )
        for number in ((round_number, 3), (3, 0), (1, 2))[round_number]:
            abort = marker(ids[number], place, is_commit=(number + round_number) % 2 == 0)
            end(talk, f"the end of {number} in round {round_number}", abort)
        look(talk, f"after round {round_number}", 4)
    for offset in range(0, 32, 3):
        request = fetch_request(
            NAME, ZERO_UUID, offset, partition=4, limit=300, isolation_level=COMMITTED
        )
        talk.ask(f"interleaved, read committed from {offset}", request, FETCH_VERSION)
    times = where(FIXED_MS, partition=4, isolation=COMMITTED)
    talk.ask("the first time, committed", times, 6)
    talk.ask("earliest, committed", where(EARLIEST, partition=4, isolation=COMMITTED), 6)


def several(talk: Talk) -> None:
    """Several partitions and producers in one request; partitions 5 and 6."""
    id_a, id_b = new_id(talk, "first of two"), new_id(talk, "second of two")
    for index in (5, 6):
        for number, producer_id in enumerate((id_a, id_b)):
            send(talk, f"{number} in partition {index}", producer_id, 0, partition=index)
    places = ((NAME, 5), (NAME, 6))
    end(talk, "of both in both", marker(id_a, *places), marker(id_b, *places, is_commit=False))
    end(
        talk,
        "twice in one request",
        marker(id_a, (NAME, 5)),
        marker(id_a, (NAME, 6), (NAME, 98), is_commit=False),
    )
    look(talk, "partition 5", 5)
    look(talk, "partition 6", 6)


def log_start(talk: Talk) -> None:
    """Records of an open transaction are deleted; partition 7."""
    producer_id = new_id(talk, "deleted")
    send(talk, "before", producer_id, 0, partition=7)
    end(talk, "an abort before", marker(producer_id, (NAME, 7), is_commit=False))
    send(talk, "an open one", producer_id, 2, partition=7)
    send(talk, "more of it", producer_id, 4, partition=7)
    for offset in (4, -1):
        partition = DeleteRecordsPartition(partition_index=7, offset=offset)
        topic = DeleteRecordsTopic(name=NAME, partitions=[partition])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=5_000)
        talk.ask(f"delete records up to {offset}", request, 2)
        latest = where(LATEST, partition=7, isolation=COMMITTED)
        talk.ask(f"latest committed, deleted up to {offset}", latest, 6)
        read = fetch_request(NAME, ZERO_UUID, 7, partition=7, isolation_level=COMMITTED)
        talk.ask(f"read committed, deleted up to {offset}", read, FETCH_VERSION)
    end(talk, "the end of a deleted one", marker(producer_id, (NAME, 7)))
    latest = where(LATEST, partition=7, isolation=COMMITTED)
    talk.ask("latest committed after a deleted one", latest, 6)


def settings(talk: Talk) -> None:
    """Topics whose settings concern the markers."""
    for label, configs in (
        ("append-time", {"message.timestamp.type": "LogAppendTime"}),
        ("gzip", {"compression.type": "gzip"}),
        ("compact", {"cleanup.policy": "compact"}),
    ):
        topic = f"{NAME}-{label}"
        topic_id = talk.make_topic(topic, 1, configs)
        producer_id = new_id(talk, label)
        send(talk, f"{label}: a batch", producer_id, 0, topic=topic)
        end(talk, f"{label}: a commit", marker(producer_id, (topic, 0)))
        look(talk, label, 0, topic=topic, topic_id=topic_id)
