"""Keys and payloads of records as DumpLogSegments prints them.

Source: Kafka 3.9's DumpLogSegments with its parsers, CoordinatorRecordSerde and TransactionLog.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from odradek.protocol.compiler import decoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.records.record import Record
from odradek.protocol.schema import schema_of
from odradek.protocol.stored import consumer_group
from odradek.protocol.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from odradek.protocol.stored.group_metadata import GroupMetadataKey, GroupMetadataValue
from odradek.protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from odradek.protocol.stored.transaction_log import TransactionLogKey, TransactionLogValue
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.dump_log.log_file import RecordDecoder
from odradek.tools.dump_log.stored_batch import DumpError
from odradek.tools.errors import partition_text
from odradek.tools.stored_json import to_json

STRING_DECODER: Final = "org.apache.kafka.tools.api.StringDecoder"
RENAMED: Final = "kafka.serializer."
"""Where the decoders were before Kafka 3.8."""
GROUP_RECORDS: Final[Mapping[int, tuple[type, type]]] = {
    0: (OffsetCommitKey, OffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    3: (consumer_group.ConsumerGroupMetadataKey, consumer_group.ConsumerGroupMetadataValue),
    4: (
        consumer_group.ConsumerGroupPartitionMetadataKey,
        consumer_group.ConsumerGroupPartitionMetadataValue,
    ),
    5: (
        consumer_group.ConsumerGroupMemberMetadataKey,
        consumer_group.ConsumerGroupMemberMetadataValue,
    ),
    6: (
        consumer_group.ConsumerGroupTargetAssignmentMetadataKey,
        consumer_group.ConsumerGroupTargetAssignmentMetadataValue,
    ),
    7: (
        consumer_group.ConsumerGroupTargetAssignmentMemberKey,
        consumer_group.ConsumerGroupTargetAssignmentMemberValue,
    ),
    8: (
        consumer_group.ConsumerGroupCurrentMemberAssignmentKey,
        consumer_group.ConsumerGroupCurrentMemberAssignmentValue,
    ),
}
"""Record type -> key and value, of those that Kafka 3.9 has."""
EMBEDDED: Final[Mapping[str, type]] = {
    "subscription": ConsumerProtocolSubscription,
    "assignment": ConsumerProtocolAssignment,
}
"""Bytes in the metadata of a group of consumers, and what they contain."""
TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""At the position of their number."""


class UnreadableRecord(Exception):
    """The message of a record cannot be decoded."""


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _number(size: int) -> Callable[[bytes], str]:
    def decode_number(data: bytes) -> str:
        if len(data) < size:
            raise DumpError(f"{len(data)} bytes are too few for a number of {size} bytes")
        return str(int.from_bytes(data[:size], "big", signed=True))

    return decode_number


_DECODERS: Final[Mapping[str, Callable[[bytes], str]]] = {
    "StringDecoder": _text,
    "IntegerDecoder": _number(4),
    "LongDecoder": _number(8),
}


def plain_decoder(key_class: str | None, value_class: str | None) -> RecordDecoder:
    """Decode keys and values by a decoder of Kafka for each.

    key_class, value_class  Java classes, StringDecoder when None or empty
    raises                  DumpError for another class
    """
    value_decoder = _class_decoder(value_class or STRING_DECODER)
    key_decoder = _class_decoder(key_class or STRING_DECODER)

    def decode_plain(record: Record) -> tuple[str | None, str | None]:
        key = None if record.key is None else key_decoder(record.key)
        return key, None if record.value is None else value_decoder(record.value)

    return decode_plain


def _class_decoder(name: str) -> Callable[[bytes], str]:
    package, _, simple = name.rpartition(".")
    is_known = package + "." in (RENAMED, STRING_DECODER.removesuffix("StringDecoder"))
    if not is_known or simple not in _DECODERS:
        # Differs from Kafka: there are no classes to load, and DefaultDecoder prints an address.
        raise DumpError(f"{name} is not one of the decoders {', '.join(_DECODERS)}")
    if package + "." == RENAMED:
        new_name = STRING_DECODER.replace("StringDecoder", simple)
        print(f"{name} is deprecated. Please use {new_name} instead")
    return _DECODERS[simple]


def decode_group_record(record: Record) -> tuple[str | None, str | None]:
    """A record of `__consumer_offsets`.

    raises  DumpError for a record without a key
    """
    if record.key is None:
        raise DumpError(
            f"Failed to decode message at offset {record.offset} using offset topic decoder "
            "(message had a missing key)"
        )
    try:
        kind = _version(record.key, "key")
        if kind not in GROUP_RECORDS:
            return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
        key_type, value_type = GROUP_RECORDS[kind]
        key = {
            "type": str(kind),
            "data": to_json(_message(key_type, kind, record.key, "key"), kind),
        }
        if record.value is None:
            return _compact(key), "<DELETE>"
        version = _version(record.value, "value")
        message = _message(value_type, version, record.value, "value")
        data = to_json(message, version)
        if isinstance(message, GroupMetadataValue) and message.protocol_type == "consumer":
            _open_embedded(message, data)
        return _compact(key), _compact({"version": str(version), "data": data})
    except UnreadableRecord as error:
        return f"Error at offset {record.offset}, skipping. {error}", None


def _version(data: bytes, part: str) -> int:
    if len(data) < 2:
        raise UnreadableRecord(f"Could not read version from {part}'s buffer.")
    return int.from_bytes(data[:2], "big", signed=True)


def _message(kind: type, version: int, data: bytes, part: str) -> Any:
    if version not in schema_of(kind).versions:
        raise UnreadableRecord(
            f"Could not read record with version {version} from {part}'s buffer due to: Can't read "
            f"version {version} of {kind.__name__}."
        )
    try:
        return decoder(kind, version)(memoryview(data), 2)[0]
    except DecodeError as error:
        raise UnreadableRecord(
            f"Could not read record with version {version} from {part}'s buffer due to: {error}."
        ) from error


def _open_embedded(message: GroupMetadataValue, data: dict[str, Any]) -> None:
    """Put the JSON of subscriptions and assignments in place of their bytes, where they can be."""
    for member, row in zip(message.members, data["members"], strict=True):
        for name, kind in EMBEDDED.items():
            content = bytes(getattr(member, name) or b"")
            with suppress(UnreadableRecord, DecodeError):
                version = _version(content, name)
                # A newer version begins with the fields of the last one that is declared.
                read = min(version, schema_of(kind).versions.last)
                row[name] = to_json(decoder(kind, read)(memoryview(content), 2)[0], read)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def decode_transaction_record(record: Record) -> tuple[str | None, str | None]:
    """A record of `__transaction_state`.

    raises  DumpError for a record that cannot be decoded
    """
    if record.key is None:
        raise DumpError(f"the record at offset {record.offset} has no key")
    try:
        version = _version(record.key, "key")
        if version not in schema_of(TransactionLogKey).versions:
            return f"unknown::version={version}", None
        key = _message(TransactionLogKey, version, record.key, "key")
        text = f"transaction_metadata::transactionalId={key.transactional_id}"
        if record.value is None:
            return text, "<DELETE>"
        version = _version(record.value, "value")
        if version not in schema_of(TransactionLogValue).versions:
            raise DumpError(f"Unknown version {version} from the transaction log message value")
        return text, _transaction_text(
            _message(TransactionLogValue, version, record.value, "value")
        )
    except UnreadableRecord as error:
        raise DumpError(str(error)) from error


def _transaction_text(value: TransactionLogValue) -> str:
    number = value.transaction_status
    if not 0 <= number < len(TRANSACTION_STATES):
        raise DumpError(
            f"Unknown transaction state id {number} from the transaction status message"
        )
    state = TRANSACTION_STATES[number]
    partitions = [] if state == "Empty" else value.transaction_partitions or []
    names = ",".join(
        partition_text(TopicPartition(row.topic, number))
        for row in partitions
        for number in row.partition_ids
    )
    return (
        f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch},state={state},"
        f"partitions=[{names}],txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={value.transaction_timeout_ms}"
    )
