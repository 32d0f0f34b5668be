"""A record with what its batch says about it, the marks of its transaction, and its row of a page.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from odradek.protocol.errors import BrokerError
from odradek.protocol.messages.fetch import AbortedTransaction
from odradek.protocol.records.batch import LOG_APPEND_TIME, RecordBatch
from odradek.protocol.records.control import parse_end_marker
from odradek.protocol.records.record import Record, decode_records
from odradek.web_console.records.decoding import TextDecoder

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
OUTPUT_BYTES_MAX: Final = 32 << 20
"""What a batch may grow to when it is decompressed."""
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
OPEN: Final = "open"
DAMAGED: Final = "damaged"


class BatchFacts(NamedTuple):
    """What is common to the records of a batch."""

    base_offset: int
    last_offset: int
    codec: str
    timestamp_type: str
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transaction: str | None
    """COMMITTED, ABORTED or OPEN; None outside of a transaction."""
    control: str | None
    """What kind of control batch it is, or DAMAGED."""


class ShownRecord(NamedTuple):
    """A record of a partition."""

    partition: int
    record: Record
    batch: BatchFacts


class TransactionMarks:
    """Says how the transaction of each batch of a partition has ended, in the order of the log.

    Source: Kafka's CompletedFetch.consumeAbortedTransactionsUpTo.
    """

    def __init__(self) -> None:
        self._aborted: list[AbortedTransaction] = []
        self._active: set[int] = set()
        self._last_stable = 0

    def begin(self, aborted: Sequence[AbortedTransaction], last_stable_offset: int) -> None:
        """Take over what a Fetch response says of the batches in it."""
        self._aborted = sorted(aborted, key=lambda row: -row.first_offset)
        self._last_stable = last_stable_offset

    def state_of(self, batch: RecordBatch) -> str | None:
        """COMMITTED, ABORTED or OPEN; None for a batch outside of transactions."""
        while self._aborted and self._aborted[-1].first_offset <= batch.last_offset:
            self._active.add(self._aborted.pop().producer_id)
        if not batch.is_transactional:
            return None
        if batch.is_control:
            self._active.discard(batch.producer_id)
            return None
        if batch.base_offset >= self._last_stable:
            return OPEN
        return ABORTED if batch.producer_id in self._active else COMMITTED


def records_of(
    partition: int, batch: RecordBatch, transaction: str | None
) -> Iterator[ShownRecord]:
    """The records of a batch; one that says why, for a batch that is damaged."""
    facts = BatchFacts(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        codec=CODECS[batch.codec] if batch.codec < len(CODECS) else str(batch.codec),
        timestamp_type="append" if batch.attributes & LOG_APPEND_TIME else "create",
        leader_epoch=batch.leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transaction=transaction,
        control=None,
    )
    try:
        if batch.is_control:
            facts = facts._replace(control=_control(batch))
        for record in decode_records(batch, output_bytes_max=OUTPUT_BYTES_MAX):
            yield ShownRecord(partition, record, facts)
    except BrokerError as error:
        reason = Record(
            None, error.message.encode() if error.message else b"", offset=batch.base_offset
        )
        yield ShownRecord(partition, reason, facts._replace(control=DAMAGED))


def _control(batch: RecordBatch) -> str:
    marker = parse_end_marker(batch)
    if marker is None:
        return "control"
    return "commit" if marker.is_commit else "abort"


ROW_MAX: Final = 600
"""Characters of a key or value in a row."""
FULL_MAX: Final = 200_000
HEADERS_MAX: Final = 500


def row_of(shown: ShownRecord, decoder: TextDecoder) -> dict[str, Any]:
    """A record in a list: long texts are cut."""
    return _fields(shown, decoder, ROW_MAX, is_pretty=False)


def full_row(shown: ShownRecord, decoder: TextDecoder) -> dict[str, Any]:
    """A record on a page of its own, with its batch."""
    return {
        **_fields(shown, decoder, FULL_MAX, is_pretty=True),
        "batch": {**shown.batch._asdict(), "partition": shown.partition},
    }


def _fields(
    shown: ShownRecord, decoder: TextDecoder, length: int, *, is_pretty: bool
) -> dict[str, Any]:
    record = shown.record
    is_record = shown.batch.control is None
    row: dict[str, Any] = {
        "partition": shown.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "control": shown.batch.control,
        "transaction": shown.batch.transaction,
        "is_tombstone": is_record and record.value is None,
        "key": None,
        "key_format": None,
        "key_bytes": None if record.key is None else len(record.key),
        "value": None,
        "value_format": None,
        "value_bytes": None if record.value is None else len(record.value),
        "is_cut": False,
        "headers": [
            {"name": name, "value": None if value is None else _cut(_header_text(value), length)}
            for name, value in record.headers[:HEADERS_MAX]
        ],
    }
    if not is_record:
        if shown.batch.control == "damaged" and record.value is not None:
            row["value"] = record.value.decode()
        return row
    for name, data, decode in (
        ("key", record.key, decoder.key),
        ("value", record.value, decoder.value),
    ):
        if data is not None:
            text, kind = decode(data, is_pretty=is_pretty)
            row["is_cut"] |= len(text) > length
            row[name], row[f"{name}_format"] = _cut(text, length), kind
    return row


def _header_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex(" ")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"
