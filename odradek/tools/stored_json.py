"""Messages of internal topics as the JSON that Kafka generates from its declarations of them.

Source: JsonConverterGenerator of Kafka 3.9.
"""

from __future__ import annotations

import base64
import re
from typing import Any, Final
from uuid import UUID

from odradek.protocol.schema import schema_of

_NAMES: Final = {
    "commit_timestamp_ms": "commitTimestamp",
    "expire_timestamp_ms": "expireTimestamp",
    "current_state_timestamp_ms": "currentStateTimestamp",
    "rebalance_timeout_ms": "rebalanceTimeout",
    "session_timeout_ms": "sessionTimeout",
}
"""Fields whose JSON name in Kafka has no unit."""


def to_json(message: object, version: int) -> dict[str, Any]:
    """The JSON of a message in Kafka 3.9, which has no tagged fields here."""
    fields = {}
    for each in schema_of(type(message)).fields:
        if version not in each.versions or each.tag is not None:
            continue
        fields[_camel_case(each.name)] = _value(getattr(message, each.name), version)
    return fields


def _value(value: Any, version: int) -> Any:
    if isinstance(value, bytes | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [_value(element, version) for element in value]
    if value is None or isinstance(value, str | int):
        return value
    if hasattr(value, "__schema__"):
        return to_json(value, version)
    if isinstance(value, UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    return str(value)


def _camel_case(name: str) -> str:
    return _NAMES.get(name) or re.sub(r"_(.)", lambda match: match[1].upper(), name)
