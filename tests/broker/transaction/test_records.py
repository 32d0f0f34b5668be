"""The bytes of `__transaction_state`: Apache Kafka's are read and written again."""

from __future__ import annotations

import pytest

from odradek.broker.transaction.metadata import BY_NAME, TransactionState
from odradek.broker.transaction.records import (
    TransactionReplay,
    read_key,
    read_value,
    transaction_record,
)
from odradek.protocol.compiler import encoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.records.record import Record
from odradek.protocol.stored.transaction_log import PartitionsSchema, TransactionLogValue
from odradek.protocol.topic_partition import TopicPartition

APACHES = bytes.fromhex(
    "0000"
    "00000000000003e8"
    "0001"
    "0000ea60"
    "01"
    "00000001"
    "0001"
    "74"
    "00000002"
    "00000000"
    "00000001"
    "0000019000000000"
    "0000018f00000000"
)
"""An open transaction of producer 1000 in t-0 and t-1."""


def test_value_of_apache_kafka_is_read_and_written_with_the_same_bytes() -> None:
    metadata = read_value(APACHES)
    assert (metadata.producer_id, metadata.producer_epoch) == (1_000, 1)
    assert metadata.state is TransactionState.ONGOING
    assert list(metadata.partitions) == [TopicPartition("t", 0), TopicPartition("t", 1)]
    record = transaction_record("id", metadata, 5)
    assert (record.key, record.value) == (b"\0\0\0\2id", APACHES)
    assert read_key(record.key) == "id"


def test_flexible_value_of_version_1_is_read() -> None:
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=4,
        transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[2])],
        transaction_last_update_timestamp_ms=5,
        transaction_start_timestamp_ms=4,
        next_producer_epoch=9,
    )
    metadata = read_value(b"\0\1" + encoder(TransactionLogValue, 1)(value))
    assert metadata.state is TransactionState.COMPLETE_COMMIT
    assert list(metadata.partitions) == [TopicPartition("t", 2)]


@pytest.mark.parametrize(
    "value",
    [b"", b"\0", b"\0\2" + APACHES[2:], APACHES[:-1], APACHES[:16] + b"\6" + APACHES[17:]],
    ids=["empty", "half a version", "a later version", "cut", "a state that is never stored"],
)
def test_unreadable_value_is_refused(value: bytes) -> None:
    with pytest.raises(DecodeError):
        read_value(value)


def test_replay_keeps_the_last_record_of_an_id_and_counts_what_it_does_not_know() -> None:
    replay = TransactionReplay()
    metadata = read_value(APACHES)
    for name in ("a", "b"):
        replay.apply(transaction_record(name, metadata, 0))
    replay.apply(transaction_record("a", metadata._replace(producer_epoch=5), 0))
    replay.apply(transaction_record("b", None, 0))
    replay.apply(Record(b"\0\1x", b"y"))
    replay.apply(Record(None, b"y"))
    assert list(replay.ids) == ["a"]
    assert replay.ids["a"].current.producer_epoch == 5
    assert replay.unknown_records == 2


def test_names_of_states_are_those_of_kafka() -> None:
    assert list(BY_NAME) == [
        *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit"),
        *("CompleteAbort", "Dead", "PrepareEpochFence"),
    ]


def test_ids_after_an_unreadable_record_are_loaded() -> None:
    replay = TransactionReplay()
    metadata = read_value(APACHES)
    replay.apply(transaction_record("a", metadata, 0))
    with pytest.raises(DecodeError):
        replay.apply(Record(b"\0\0\0\1a", b"\0"))
    replay.skip(1, 2, "too short")
    replay.apply(transaction_record("b", metadata, 0))
    assert {name: ids.current for name, ids in replay.ids.items()} == {"a": metadata, "b": metadata}
    assert (replay.unreadable_count, replay.first_unreadable) == (1, "offset 1: too short")
