"""Responses as JSON that does not change from run to run: ids, times and addresses are masked.

An id that differs in each run is called after the step that first showed it, so that two
fields that must hold the same id still must.
"""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID as Uuid

from odradek.protocol.errors import BrokerError
from odradek.protocol.records.batch import (
    BATCH_OVERHEAD,
    RecordBatch,
    has_valid_crc,
    parse_batch,
    whole_batch_size,
)
from odradek.protocol.records.record import decode_records
from odradek.protocol.schema import RECORDS, ZERO_UUID, ArrayOf, schema_of

FIXED_MS = 1_600_000_000_000
FIXED_SPAN_MS = 1_000_000_000
"""Timestamps that a chapter chose lie here; every other one is a clock's."""

NUMBERED = {"topic_id": "topic", "session_id": "session", "metadata_hash": "hash"}
CONSTANT = {
    "host": "<host>",
    "port": "<port>",
    "cluster_id": "<cluster>",
    "log_dir": "<directory>",
    "total_bytes": "<bytes>",
    "usable_bytes": "<bytes>",
}
UUID_IN_TEXT = re.compile(r"(?<![\w-])[A-Za-z0-9_-]{22}(?![\w-])")
RANGE_IN_TEXT = re.compile(r"\[-?\d{10,}, -?\d{10,}\]")
UNSET = (None, -1, 0, "", ZERO_UUID)
DRAWN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What a coordinator adds to a client's or an instance's id to make a member's."""
SHOWN_CHARACTERS = 1_000
MEMBER_FIELDS = ("member_id", "leader")
IN_HASH_ORDER = (
    ("groups", "group_id", "group_id"),
    ("results", "group_id", "error_code"),
    ("members", "member_id", "metadata"),
    ("members", "member_id", "member_metadata"),
    ("members", "member_id", "subscription"),
    ("members", "member_id", "target_assignment"),
    ("topic_partitions", "topic_id", "partitions"),
    ("assigned_partitions", "topic_id", "partitions"),
    ("partitions_pending_revocation", "topic_id", "partitions"),
    ("partitions", "partition_index", "committed_offset"),
    ("results_by_transaction", "transactional_id", "topic_results"),
    ("results_by_partition", "partition_index", "partition_error_code"),
    ("transaction_states", "transactional_id", "producer_id"),
    ("topics", "topic", "partitions"),
)
"""Name of the list, the field to sort by, a field that tells it from others of that name."""
STORED_OR_NOT = {"partition_index", "error_code"}
"""All fields of the response to one committed offset."""


class Masks:
    """What a chapter has seen so far."""

    def __init__(self) -> None:
        self.step = ""
        """What is being looked at; an id is called after the step that first showed it."""
        self.names: dict[tuple[str, object], str] = {}
        self._taken: dict[str, int] = {}
        self.hides_prefixes = False
        """Of drawn ids, what stands before: the client's or the instance's."""

    def give(self, kind: str, value: object, name: str) -> None:
        """Call an id by a name before any response shows it."""
        self.names[kind, value] = f"<{kind} {name}>"

    def name(self, kind: str, value: object) -> str:
        """The name of an id, always the same."""
        if (kind, value) not in self.names:
            name = f"{kind} of {self.step}"
            self._taken[name] = self._taken.get(name, 0) + 1
            number = f" #{self._taken[name]}" if self._taken[name] > 1 else ""
            self.names[kind, value] = f"<{name}{number}>"
        return self.names[kind, value]

    def scalar(self, name: str, value: Any) -> Any:
        """The JSON of one field."""
        if name in CONSTANT and value not in UNSET:
            return CONSTANT[name]
        if name == "producer_id" and value >= 0:
            return self.name("producer", value)
        if name in NUMBERED and value not in UNSET:
            return self.name(NUMBERED[name], value)
        if name.endswith(("time_ms", "timestamp_ms")):
            return time_or_mask(value)
        if isinstance(value, Uuid):
            return str(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value).hex()
        if isinstance(value, str) and name in MEMBER_FIELDS:
            if ("member", value) in self.names:
                return self.names["member", value]
            if UUID_IN_TEXT.fullmatch(value):
                return self.name("member", value)
            drawn = DRAWN_ID.search(value)
            if drawn is not None and self.hides_prefixes:
                return self.name("member", drawn[0])
            return DRAWN_ID.sub(lambda match: self.name("member", match[0]), value)
        if isinstance(value, str) and len(value) > SHOWN_CHARACTERS:
            return f"{len(value)} characters: {value[:10]}..."
        if isinstance(value, str) and name.endswith("message"):
            return RANGE_IN_TEXT.sub("<range>", UUID_IN_TEXT.sub("<id>", value))
        return value


def time_or_mask(value: int) -> int | str:
    """Timestamps that no chapter chose are masked."""
    if value <= 0 or FIXED_MS <= value <= FIXED_MS + FIXED_SPAN_MS:
        return value
    return "<now>"


def normalise(value: Any, version: int, masks: Masks) -> dict[str, Any]:
    """A message as JSON: the fields that its version carries, in their order."""
    shown: dict[str, Any] = {}
    for each in schema_of(type(value)).fields:
        if version not in each.versions:
            continue
        content = getattr(value, each.name)
        if each.type is RECORDS:
            shown[each.name] = None if content is None else show_records(content, masks)
        elif each.name == "api_keys":
            shown[each.name] = {
                str(api.api_key): [api.min_version, api.max_version] for api in content
            }
        elif isinstance(each.type, ArrayOf) and content is not None:
            elements = [element(each.name, entry, version, masks) for entry in content]
            shown[each.name] = in_order(each.name, elements)
        elif isinstance(each.type, type) and content is not None:
            shown[each.name] = normalise(content, version, masks)
        else:
            shown[each.name] = masks.scalar(each.name, content)
    return shown


def in_order(name: str, elements: list[Any]) -> Any:
    """Settings by their names; other lists with names, groups, their members and the places that
    they have committed in the order of these.

    Apache Kafka gives all of them in the order of a hash table.
    """
    if name == "subscribed_topic_names":
        return sorted(elements)
    if not all(isinstance(element, dict) for element in elements):
        return elements
    if name == "partitions" and all(element.keys() == STORED_OR_NOT for element in elements):
        return sorted(elements, key=lambda element: element["partition_index"])
    for list_name, key, also in IN_HASH_ORDER:
        if name == list_name and all(key in element and also in element for element in elements):
            return sorted(elements, key=lambda element: place_of(element[key]))
    if not all(isinstance(element.get("name"), str) for element in elements):
        return elements
    if name == "configs":
        return {element.pop("name"): element for element in elements}
    return sorted(elements, key=lambda element: str(element["name"]))


def place_of(value: Any) -> Any:
    """What to sort by: the name of a drawn id, whatever its prefix."""
    return value.rpartition("<")[2] if isinstance(value, str) else value


def element(name: str, value: Any, version: int, masks: Masks) -> Any:
    """One element of a list."""
    if hasattr(type(value), "__schema__"):
        return normalise(value, version, masks)
    return masks.scalar(name, value)


def show_records(content: Any, masks: Masks) -> dict[str, Any]:
    """Whole batches with their records, and how many bytes of a cut one follow."""
    view = memoryview(bytes(content))
    batches: list[dict[str, Any]] = []
    position = 0
    while whole_batch_size(view, position) is not None:
        batch = parse_batch(view, position)
        position += batch.size
        shown = {
            "base_offset": batch.base_offset,
            "leader_epoch": batch.leader_epoch,
            "attributes": batch.attributes,
            "last_offset_delta": batch.last_offset_delta,
            "base_timestamp_ms": time_or_mask(batch.base_timestamp_ms),
            "max_timestamp_ms": time_or_mask(batch.max_timestamp_ms),
            "producer_id": masks.scalar("producer_id", batch.producer_id),
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
            "record_count": batch.record_count,
            "has_valid_crc": has_valid_crc(batch),
            "records": show_all(batch),
        }
        if batch.codec == 0:
            shown["size"] = batch.size
        batches.append(shown)
    return {"batches": batches, "has_cut_batch": len(view) - position > BATCH_OVERHEAD}


def show_all(batch: RecordBatch) -> list[Any] | str:
    """The records of a batch, or that they cannot be read."""
    try:
        return [show_record(record) for record in decode_records(batch)]
    except BrokerError:
        return "damaged"


def show_record(record: Any) -> list[Any]:
    """Offset, timestamp, key, value, headers."""
    return [
        record.offset,
        time_or_mask(record.timestamp_ms),
        text(record.key),
        text(record.value),
        [[name, text(value)] for name, value in record.headers],
    ]


def text(content: bytes | None) -> str | None:
    """Bytes of a record; a long run of one byte is shortened."""
    if content is None:
        return None
    if len(content) > 40 and content == content[:1] * len(content):
        return f"{len(content)} times {content[:1].decode('latin-1')}"
    return bytes(content).decode("latin-1")
