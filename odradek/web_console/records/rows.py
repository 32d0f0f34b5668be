"""Records as rows of a page, and one record in full.  Pure."""

from __future__ import annotations

from typing import Any, Final

from odradek.web_console.records.decoding import TextDecoder
from odradek.web_console.records.shown_record import ShownRecord

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
