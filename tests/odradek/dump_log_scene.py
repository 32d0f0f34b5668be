"""The files for `odradek dump-log`: a directory of Apache Kafka, stored groups and transactions,
old formats, and damaged copies."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from struct import Struct, pack
from typing import Any, Final
from uuid import UUID

from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.control import build_end_marker
from odradek.protocol.records.record import Record
from odradek.protocol.stored import consumer_group
from odradek.protocol.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from odradek.protocol.stored.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from odradek.protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from odradek.protocol.stored.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from tests.support.reference_codec import encode
from tests.support.tool_cache import PROJECT

GOLDEN: Final = PROJECT / "tests" / "golden" / "apache_log_dir" / "clean.tar.gz"
NAME: Final = "00000000000000000000"
TIME_MS: Final = 1_600_000_000_000
_LEGACY: Final = Struct(">qi")


def make_scene(folder: Path) -> None:
    """Write the files into an empty folder."""
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(folder / "golden", filter="data")
    _write(folder / "groups" / f"{NAME}.log", _groups())
    _write(folder / "transactions" / f"{NAME}.log", _transactions())
    _write(folder / "legacy" / f"{NAME}.log", _legacy())
    _write(folder / "control" / f"{NAME}.log", _control())
    _write(folder / "numbers" / f"{NAME}.log", _batch(0, (pack(">i", 7), pack(">q", -8))))
    _write(folder / "bootstrap.checkpoint", _batch(0, (None, b"x")))
    _write(folder / "00000000000000000007-0000000003.checkpoint", _batch(7, (None, b"x")))
    _write(folder / "wrong.checkpoint", b"")
    _write(folder / "wrong.log", b"")
    _write(folder / "replication.other", b"x")
    _damage(folder)


def _damage(folder: Path) -> None:
    """Copies of three logs with their indexes and snapshots, each with another fault."""

    def copy(name: str, source: str, suffix: str, change: Callable[[bytearray], Any]) -> None:
        for path in (folder / "golden" / source).glob(f"{NAME}.*"):
            data = bytearray(path.read_bytes())
            if path.suffix == suffix:
                change(data)
            _write(folder / name / path.name, data)

    copy("flipped", "plain-0", ".log", lambda data: data.__setitem__(100, data[100] ^ 1))
    copy("cut", "plain-0", ".log", lambda data: data.__delitem__(slice(-40, None)))
    copy("tail", "plain-0", ".log", lambda data: data.extend(b"\1" * 30))
    copy("zeros", "plain-0", ".log", lambda data: data.extend(bytes(100)))
    copy("codec", "plain-0", ".log", lambda data: data.__setitem__(22, 6))
    for name, suffix, position, number in (
        ("misled", ".index", 8, pack(">i", 8)),
        ("outside", ".index", 12, pack(">i", 9999)),
        ("ends", ".index", 12, pack(">i", 1644)),
        ("unlike", ".timeindex", 0, pack(">q", TIME_MS)),
        ("disorder", ".timeindex", 12, pack(">q", 5)),
        ("last", ".timeindex", 24, pack(">q", 5)),
        ("between", ".timeindex", 8, pack(">i", 4)),
        ("beyond", ".timeindex", 32, pack(">i", 400)),
    ):
        place = slice(position, position + len(number))
        copy(name, "idempotent-0", suffix, partial(_put, place=place, number=number))
    for name, suffix, added in (
        ("padded", ".index", bytes(160)),
        ("odd", ".index", bytes(3)),
        ("below", ".index", pack(">ii", -3, 0)),
        ("time-odd", ".timeindex", bytes(3)),
    ):
        copy(name, "idempotent-0", suffix, partial(_add, added=added))
    copy("empty", "idempotent-0", ".index", bytearray.clear)
    snapshot = (folder / "golden" / "idempotent-0" / "00000000000000000028.snapshot").read_bytes()
    for name, data in (
        ("cut", snapshot[:-1]),
        ("version", b"\0\7" + snapshot[2:]),
        ("sum", snapshot[:-1] + bytes([snapshot[-1] ^ 1])),
        ("longer", snapshot + b"\0"),
    ):
        _write(folder / "snapshots" / f"{name}.snapshot", data)
    index = folder / "golden" / "transactional-0" / "00000000000000000004.txnindex"
    entry = index.read_bytes()
    _write(folder / "txn" / index.name, entry * 2 + entry[:10])
    _write(folder / "txn" / "00000000000000000005.txnindex", entry + b"\1\0" + entry[2:])


def _put(data: bytearray, place: slice, number: bytes) -> None:
    data[place] = number


def _add(data: bytearray, added: bytes) -> None:
    data.extend(added)


def _write(path: Path, data: bytes | bytearray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _batch(offset: int, *pairs: tuple[bytes | None, bytes | None], **fields: Any) -> bytearray:
    records = [Record(key, value, timestamp_ms=TIME_MS + offset) for key, value in pairs]
    return build_batch(records, base_offset=offset, leader_epoch=2, **fields)


def _stored(message: object, version: int) -> bytes:
    return pack(">h", version) + bytes(encode(message, version))


def _batches(pairs: Sequence[tuple[bytes | None, bytes | None]]) -> bytes:
    return b"".join(_batch(offset, pair) for offset, pair in enumerate(pairs))


OFFSET: Final = OffsetCommitKey(group="g-ü", topic="orders", partition=3)
GROUP: Final = GroupMetadataKey(group="g")


def _groups() -> bytes:
    return _batches(
        [
            *(_committed(version) for version in (0, 1, 3)),
            (_stored(OFFSET, 0), None),
            *_classic_groups(),
            (_stored(GROUP, 2), None),
            *_new_groups(),
            (pack(">h", 99), b"x"),
            (b"\0", b"x"),
            (_stored(OFFSET, 1)[:9], b"\0\3"),
            (_stored(OFFSET, 1), b"\0"),
        ]
    )


def _committed(version: int) -> tuple[bytes, bytes]:
    value = OffsetCommitValue(
        offset=12, leader_epoch=1, metadata='"x"', commit_timestamp_ms=TIME_MS
    )
    return _stored(OFFSET, 1), _stored(value, version)


def _classic_groups() -> Iterator[tuple[bytes, bytes]]:
    """One of consumers, another of Connect, and one with a subscription that cannot be read."""
    partitions = [TopicPartition(topic="orders", partitions=[0, 3])]
    subscription = ConsumerProtocolSubscription(
        topics=["orders"], user_data=b"\1", owned_partitions=partitions, generation_id=4
    )
    assignment = ConsumerProtocolAssignment(assigned_partitions=partitions)
    for kind, version, subscribed, assigned in (
        ("consumer", 3, _stored(subscription, 3), _stored(assignment, 1)),
        ("connect", 2, _stored(subscription, 3), b""),
        ("consumer", 1, b"\0\1\0", b""),
    ):
        member = MemberMetadata(
            member_id="m-1",
            group_instance_id="static" if version == 3 else None,
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout_ms=300_000,
            session_timeout_ms=45_000,
            subscription=subscribed,
            assignment=assigned,
        )
        value = GroupMetadataValue(
            protocol_type=kind,
            generation=5,
            protocol=None,
            leader="m-1",
            current_state_timestamp_ms=TIME_MS if version > 1 else -1,
            members=[member],
        )
        yield _stored(GROUP, 2), _stored(value, version)


def _new_groups() -> Iterator[tuple[bytes, bytes]]:
    key = consumer_group.ConsumerGroupMetadataKey(group_id="n")
    yield _stored(key, 3), _stored(consumer_group.ConsumerGroupMetadataValue(epoch=7), 0)
    topic = consumer_group.TopicMetadata(
        topic_id=UUID(int=77),
        topic_name="orders",
        num_partitions=1,
        partition_metadata=[consumer_group.PartitionMetadata(partition=0, racks=["a"])],
    )
    yield (
        _stored(consumer_group.ConsumerGroupPartitionMetadataKey(group_id="n"), 4),
        _stored(consumer_group.ConsumerGroupPartitionMetadataValue(topics=[topic]), 0),
    )


def _transactions() -> bytes:
    key = TransactionLogKey(transactional_id="t-1")

    def value(status: int, *names: str, version: int = 0) -> bytes:
        partitions = [PartitionsSchema(topic=name, partition_ids=[0]) for name in names]
        return _stored(
            TransactionLogValue(
                producer_id=9,
                producer_epoch=2,
                transaction_timeout_ms=60_000,
                transaction_status=status,
                transaction_partitions=partitions or None,
                transaction_last_update_timestamp_ms=TIME_MS,
                transaction_start_timestamp_ms=TIME_MS - 1,
            ),
            version,
        )

    pairs = [
        *((_stored(key, 0), value(status, "orders")) for status in range(8)),
        (_stored(key, 0), value(0)),
        (_stored(key, 0), value(1, "orders", version=1)),
        (_stored(key, 0), None),
        (pack(">h", 5), b"x"),
        (_stored(key, 0), pack(">h", 9)),
    ]
    return _batches(pairs)


def _legacy() -> bytes:
    """Entries of magic 0 and 1; a compressed one of magic 1 with relative offsets."""
    inner = _entry(0, 1, b"k", b"one") + _entry(1, 1, None, b"two")
    packed = gzip.compress(inner, mtime=0, compresslevel=0)
    return (
        _entry(0, 0, b"k", b"zero")
        + _entry(1, 1, None, None)
        + _entry(3, 1, None, packed, attributes=1)
        + _entry(4, 1, b"k", b"appended", attributes=8)
    )


def _entry(
    offset: int, magic: int, key: bytes | None, value: bytes | None, *, attributes: int = 0
) -> bytes:
    fields = pack(">bb", magic, attributes) + (pack(">q", TIME_MS + offset) if magic else b"")
    for part in (key, value):
        fields += pack(">i", -1) if part is None else pack(">i", len(part)) + part
    return _LEGACY.pack(offset, len(fields) + 4) + pack(">I", zlib.crc32(fields)) + fields


def _control() -> bytes:
    """A transaction, both markers, a control record of another kind and one that is damaged."""
    fields: dict[str, Any] = {
        "producer_id": 5,
        "producer_epoch": 1,
        "base_sequence": 2**31 - 2,
        "is_transactional": True,
    }
    records = [
        Record(b"k", b"v", timestamp_ms=TIME_MS, headers=(("a", b"1"), ("b", None))),
        Record(None, None, timestamp_ms=TIME_MS),
        Record(b"", b"", timestamp_ms=TIME_MS, offset=4),
    ]
    markers = [
        build_end_marker(
            is_commit=is_commit,
            producer_id=5,
            producer_epoch=1,
            coordinator_epoch=3,
            timestamp_ms=TIME_MS,
            base_offset=offset,
        )
        for is_commit, offset in ((True, 5), (False, 6))
    ]
    other = _batch(7, (pack(">hh", 0, 2), b"leader"), is_control=True)
    unknown = _batch(9, (pack(">hh", 0, 30), b""), is_control=True)
    damaged = _batch(10, (b"\0", b""), is_control=True)
    return b"".join(
        (
            build_batch(records, log_append_time_ms=TIME_MS + 9, **fields),
            *markers,
            other,
            unknown,
            damaged,
        )
    )
