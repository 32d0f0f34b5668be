"""A data directory as Apache Kafka leaves it, byte by byte, opened and given back."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.storage.checkpoints.leader_epochs import EpochEntry
from odradek.storage.log.reading import aborted_transactions
from odradek.storage.producers.producer_snapshot import encode_snapshot
from odradek.storage.producers.producer_state import (
    BatchMetadata,
    Duplicate,
    ProducerEntry,
    check_append,
)
from tests.support.log_directories import Broker
from tests.support.stored_batches import data_bytes, marker_bytes, parsed_data

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
FOLDER = "/kafka/orders-0"

FIRST = b"".join(
    data_bytes(
        base_offset=offset,
        count=2,
        producer_id=1000,
        producer_epoch=0,
        base_sequence=offset - 40,
        leader_epoch=3,
    )
    for offset in (40, 42, 44)
)
SECOND = (
    data_bytes(
        base_offset=46,
        count=2,
        producer_id=1000,
        producer_epoch=0,
        base_sequence=6,
        is_transactional=True,
        leader_epoch=5,
    )
    + marker_bytes(
        base_offset=48, producer_id=1000, producer_epoch=0, is_abort=True, leader_epoch=5
    )
    + data_bytes(
        base_offset=49,
        producer_id=1000,
        producer_epoch=0,
        base_sequence=8,
        is_transactional=True,
        leader_epoch=5,
    )
)

SNAPSHOT_46 = encode_snapshot(
    [ProducerEntry(1000, 0, (BatchMetadata(5, 45, 1, 1_000),), -1, -1, 1_000)]
)
SNAPSHOT_50 = encode_snapshot(
    [ProducerEntry(1000, 0, (BatchMetadata(8, 49, 0, 1_000),), 0, 49, 1_000)]
)
# version, producer id, first offset, last offset, last stable offset
TXN_INDEX = bytes.fromhex("000000000000000003e8000000000000002e00000000000000300000000000000031")
TIME_INDEX = bytes.fromhex("00000000000003e800000001")

ROOT = {
    ".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":-1}',
    "meta.properties": (
        b"#\n#Mon Jun 30 09:15:00 UTC 2025\nbroker.id=1\nversion=0\n"
        b"cluster.id=kVSgfurUQFGGpHMTBqBPiw\n"
    ),
    "recovery-point-offset-checkpoint": b"0\n1\norders 0 50\n",
    "replication-offset-checkpoint": b"0\n1\norders 0 49\n",
    "log-start-offset-checkpoint": b"0\n1\norders 0 41\n",
    "cleaner-offset-checkpoint": b"",
}
PARTITION = {
    "00000000000000000040.log": FIRST,
    "00000000000000000040.index": b"",
    "00000000000000000040.timeindex": TIME_INDEX,
    "00000000000000000046.log": SECOND,
    "00000000000000000046.index": b"",
    "00000000000000000046.timeindex": TIME_INDEX,
    "00000000000000000046.txnindex": TXN_INDEX,
    "00000000000000000046.snapshot": SNAPSHOT_46,
    "00000000000000000050.snapshot": SNAPSHOT_50,
    "leader-epoch-checkpoint": b"0\n2\n3 40\n5 46\n",
    "partition.metadata": b"version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w",
}


def kafka_directory() -> MemoryFileSystem:
    files = MemoryFileSystem(folders=("/kafka", FOLDER))
    for name, data in ROOT.items():
        files.replace(f"/kafka/{name}", data)
    for name, data in PARTITION.items():
        files.replace(f"{FOLDER}/{name}", data)
    return files


@pytest.mark.parametrize("is_clean", [True, False])
def test_directory_of_kafka_opens(is_clean: bool) -> None:
    files = kafka_directory()
    if not is_clean:
        files.remove("/kafka/.kafka_cleanshutdown")
    broker = Broker(files, ["/kafka"]).start()
    assert broker.report[0].was_clean_shutdown is is_clean
    log = broker.manager.get("orders", 0)
    assert log is not None
    log.check()
    assert (log.log_start_offset, log.end_offset) == (41, 50)
    assert log.high_watermark == 49
    assert broker.manager.topic_id("orders", 0) == TOPIC_ID
    assert log.leader_epochs.entries == (EpochEntry(3, 41), EpochEntry(5, 46))
    assert log.leader_epochs.end_offset_for(4, log.end_offset) == (3, 46)
    assert aborted_transactions(log.segments, 41, 50) == [(1000, 46)]
    log.producer_states.on_high_watermark(49)
    assert log.producer_states.first_unstable_offset == 49
    entry = log.producer_states.entries[1000]
    assert (entry.last_sequence, entry.current_txn_first_offset) == (8, 49)
    resent = parsed_data(producer_id=1000, producer_epoch=0, base_sequence=8, is_transactional=True)
    assert check_append(entry, resent) == Duplicate(49, 49, 1_000)


def test_directory_of_kafka_is_given_back_as_it_was() -> None:
    files = kafka_directory()
    broker = Broker(files, ["/kafka"]).start()
    broker.stop({("orders", 0): 49})
    for name, data in ROOT.items():
        assert files.read(f"/kafka/{name}") == data, name
    for name, data in PARTITION.items():
        assert files.read(f"{FOLDER}/{name}") == data, name
    assert files.list(FOLDER) == sorted(PARTITION)
