"""The text of a `.log` file.

Source: Kafka 3.9's DumpLogSegments.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from odradek.bounded_files import open_file
from odradek.protocol.records.batch import NO_SEQUENCE, SEQUENCE_MASK
from odradek.protocol.records.record import Record
from odradek.storage.files.names import LOG
from odradek.tools.dump_log.stored_batch import (
    DumpedRecord,
    DumpError,
    StoredBatch,
    iterate_stored_batches,
)
from odradek.tools.options import INT32_MAX

CHECKPOINT: Final = ".checkpoint"
BOOTSTRAP: Final = "bootstrap.checkpoint"
INDENT: Final = "| "
MISMATCH: Final = "Mismatches in :{}"
WRONG_TIMESTAMP: Final = "Found timestamp mismatch in :{}"
OUT_OF_ORDER: Final = "Found out of order timestamp in :{}"
MISSING_OFFSET: Final = "The following indexed offsets are not found in the log."
GAP: Final = "Non-consecutive offsets in {}"
FINDINGS: Final = (MISMATCH, WRONG_TIMESTAMP, OUT_OF_ORDER, MISSING_OFFSET, GAP)
"""The line above the findings of a kind in a file; the kinds are printed in this order."""
LATEST_FIRST: Final = (MISMATCH, GAP)
"""Kinds that Kafka prints from the last finding on, those of a file's last dump only."""
CONTROL_TYPES: Final = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)
"""At the position of their number."""
END_MARKERS: Final = 2
"""How many of them end a transaction."""
_CONTROL_KEY: Final = Struct(">hh")
_END_MARKER: Final = Struct(">hi")

RecordDecoder = Callable[[Record], tuple[str | None, str | None]]
"""Key and payload of a record as texts; None: not printed."""


class LogOptions(NamedTuple):
    """What of a file is printed.

    is_deep         the records, besides the batches
    decode          with the keys and payloads of the records; None: without them
    skips_metadata  without offsets, times and sizes of the records
    bytes_max       how much of each file is read; INT32_MAX: all of it
    """

    is_deep: bool
    decode: RecordDecoder | None
    skips_metadata: bool
    bytes_max: int


class DumpFindings:
    """What does not fit in the files that are dumped."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], list[str]] = {}

    def begin(self, path: str) -> None:
        """A file is dumped, which may have been before."""
        for kind in LATEST_FIRST:
            self._lines.pop((kind, path), None)

    def note(self, kind: str, path: str, line: str) -> None:
        """kind  one of FINDINGS"""
        self._lines.setdefault((kind, path), []).append(line)

    def lines(self) -> Iterator[str]:
        """What is printed of them."""
        for kind in FINDINGS:
            for (noted, path), lines in self._lines.items():
                if noted == kind:
                    yield kind.format(path)
                    yield from reversed(lines) if kind in LATEST_FIRST else lines


def dump_log(name: str, options: LogOptions, findings: DumpFindings) -> None:
    """Print the file, and note the offsets of neighbours that do not follow one another.

    raises  DumpError, OSError
    """
    path = Path(name)
    print(_title(path))
    with open_file(path) as file:
        size = file.seek(0, 2)
        end = min(size, options.bytes_max)
        position, last_offset = 0, -1
        for batch in iterate_stored_batches(file.fileno(), name, end):
            _print_batch(batch)
            position += batch.size
            for stored in batch.records() if options.is_deep else ():
                offset = stored.record.offset
                if last_offset not in (-1, offset - 1):
                    findings.note(
                        GAP, os.path.abspath(name), f"  {last_offset} is followed by {offset}"
                    )
                last_offset = offset
                _print_record(batch, stored, options)
        if end > position and options.bytes_max == INT32_MAX:
            print(f"Found {end - position} invalid bytes at the end of {path.name}")


def base_offset(path: Path) -> int:
    """The offset that the name of a file begins with.

    raises  DumpError
    """
    text = path.name.partition(".")[0]
    try:
        return int(text)
    except ValueError:
        raise DumpError(f'For input string: "{text}"') from None


def _title(path: Path) -> str:
    if path.suffix == LOG:
        return f"Log starting offset: {base_offset(path)}"
    if path.name == BOOTSTRAP:
        return "KRaft bootstrap snapshot"
    offset, _, epoch = path.name.removesuffix(CHECKPOINT).partition("-")
    if not (offset.isdecimal() and epoch.isdecimal()):
        raise DumpError(f"{path.name} is not the name of a snapshot")
    return f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}"


def _print_batch(batch: StoredBatch) -> None:
    write = sys.stdout.write
    if batch.is_legacy:
        write(f"offset: {batch.last_offset}")
    else:
        header = batch.header
        horizon_ms = header.delete_horizon_ms
        horizon = "OptionalLong.empty" if horizon_ms is None else f"OptionalLong[{horizon_ms}]"
        write(
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: "
            f"{header.record_count} baseSequence: {header.base_sequence} lastSequence: "
            f"{header.last_sequence} producerId: {header.producer_id} producerEpoch: "
            f"{header.producer_epoch} partitionLeaderEpoch: {header.leader_epoch} isTransactional: "
            f"{_boolean(header.is_transactional)} isControl: {_boolean(header.is_control)} "
            f"deleteHorizonMs: {horizon}"
        )
    write(
        f" position: {batch.position} {batch.timestamp_type}: {batch.max_timestamp_ms} size: "
        f"{batch.size} magic: {batch.magic} compresscodec: {batch.codec} crc: {batch.checksum} "
        f"isvalid: {_boolean(batch.is_valid)}\n"
    )


def _print_record(batch: StoredBatch, stored: DumpedRecord, options: LogOptions) -> None:
    record, write, prefix = stored.record, sys.stdout.write, INDENT
    if not options.skips_metadata:
        write(
            f"{prefix}offset: {record.offset} {batch.timestamp_type}: {record.timestamp_ms} "
            f"keySize: {_size(record.key)} valueSize: {_size(record.value)}"
        )
        prefix = " "
        if stored.checksum is None:
            keys = ",".join(key for key, _ in record.headers)
            write(f" sequence: {_sequence(batch, record)} headerKeys: [{keys}]")
        else:
            # The brace is Kafka's.
            write(f" isValid: true crc: {stored.checksum}}}")
        if batch.is_control:
            write(_control_text(record))
    if options.decode is not None and not batch.is_control:
        key, payload = options.decode(record)
        if key is not None:
            write(f"{prefix}key: {key}")
        if payload is not None:
            write(f" payload: {payload}")
    write("\n")


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _sequence(batch: StoredBatch, record: Record) -> int:
    base = batch.header.base_sequence
    if base == NO_SEQUENCE:
        return NO_SEQUENCE
    return (base + record.offset - batch.header.base_offset) & SEQUENCE_MASK


def _control_text(record: Record) -> str:
    """
    raises  DumpError
    """
    key, value = record.key or b"", record.value or b""
    if len(key) < _CONTROL_KEY.size:
        raise DumpError(
            "Invalid value size found for end control record key. Must have at least "
            f"{_CONTROL_KEY.size} bytes, but found only {len(key)}"
        )
    version, kind = _CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise DumpError(
            f"Invalid version found for control record: {version}. May indicate data corruption"
        )
    if not 0 <= kind < END_MARKERS:
        # Differs from Kafka: what the records of KRaft contain is not printed.
        name = CONTROL_TYPES[kind] if 0 <= kind < len(CONTROL_TYPES) else "UNKNOWN"
        return f" controlType: {name}({kind})"
    if len(value) < _END_MARKER.size:
        raise DumpError(
            "Invalid value size found for end transaction marker. Must have at least "
            f"{_END_MARKER.size} bytes, but found only {len(value)}"
        )
    version, epoch = _END_MARKER.unpack_from(value)
    if version < 0:
        raise DumpError(
            f"Invalid version found for end transaction marker: {version}. May indicate data "
            "corruption"
        )
    return f" endTxnMarker: {CONTROL_TYPES[kind]} coordinatorEpoch: {epoch}"
