"""Formatters of internal topics: records as JSON without separators, as Kafka 3.9 prints them.

Source: Kafka 3.9's ApiMessageFormatter and its subclasses; the JSON that Kafka generates from its
message declarations.
Differs from Kafka: the old names of these formatters (kafka.coordinator...) print the same JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from odradek.protocol.compiler import decoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.schema import schema_of
from odradek.protocol.stored.group_metadata import GroupMetadataKey, GroupMetadataValue
from odradek.protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from odradek.protocol.stored.transaction_log import TransactionLogKey, TransactionLogValue
from odradek.tools.console.errors import ConsoleError
from odradek.tools.stored_json import to_json

_UNKNOWN: Final = "unknown"


class StoredFormatter:
    """Prints the records with one type of key."""

    def __init__(self, key: type, value: type, others: Sequence[type] = ()) -> None:
        """others  key types of the same topic whose records are skipped"""
        self._key = key
        self._value = value
        self._others = tuple(others)

    def __call__(self, record: Any, output: list[bytes]) -> None:
        """Append one JSON object.

        raises  ConsoleError for a key or value that cannot be decoded
        """
        key, value = record.key(), record.value()
        if key is not None and _is_any(self._others, key):
            return
        text = json.dumps(
            {"key": _described(self._key, key), "value": _described(self._value, value)},
            separators=(",", ":"),
            ensure_ascii=False,
        )
        output.append(text.encode())


def _version_of(data: bytes) -> int:
    if len(data) < 2:
        raise ConsoleError("java.nio.BufferUnderflowException", "")
    return int.from_bytes(data[:2], "big", signed=True)


def _is_any(kinds: Sequence[type], data: bytes) -> bool:
    version = _version_of(data)
    return any(version in schema_of(kind).versions for kind in kinds)


def _described(kind: type, data: bytes | None) -> dict[str, Any] | None:
    if data is None:
        return None
    version = _version_of(data)
    if version not in schema_of(kind).versions:
        return {"version": version, "data": _UNKNOWN}
    try:
        message: Any = decoder(kind, version)(memoryview(data), 2)[0]
    except DecodeError as error:
        raise ConsoleError("java.lang.RuntimeException", str(error)) from error
    return {"version": version, "data": to_json(message, version)}


STORED_FORMATTERS: Final[Mapping[str, StoredFormatter]] = {
    "OffsetsMessageFormatter": StoredFormatter(
        OffsetCommitKey, OffsetCommitValue, [GroupMetadataKey]
    ),
    "GroupMetadataMessageFormatter": StoredFormatter(
        GroupMetadataKey, GroupMetadataValue, [OffsetCommitKey]
    ),
    "TransactionLogMessageFormatter": StoredFormatter(TransactionLogKey, TransactionLogValue),
}
