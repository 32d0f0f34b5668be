"""The response to a produce request whose only batch was appended: most of them.

Building the response's three objects and encoding them costs 1.7 us, a seventh of a small request.
Here the bytes around the five figures are taken once from the generated encoder, and a response
is one pack and two concatenations (0.3 us).
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final
from uuid import UUID

from odradek.protocol.compiler import encoder
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.protocol.topic_partition import ZERO_UUID

LAYOUTS_MAX: Final = 4_096
FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13
LOG_START_FROM: Final = 5
_INDEX: Final = 0x01020304
"""Marks the place of the figures; no topic's name has these bytes."""
_FIGURES: Final = Struct(">ihqqq")
_FIGURES_BEFORE_5: Final = Struct(">ihqq")


def encode_appended(
    version: int,
    name: str,
    topic_id: UUID,
    index: int,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
) -> bytes:
    """The body of a ProduceResponse for one partition without an error."""
    # The hash of an id is made in Python, that of a name is kept: only one of them is looked up.
    before, after = _layout(version, name if version < TOPIC_IDS_FROM else topic_id)
    if version < LOG_START_FROM:
        figures = _FIGURES_BEFORE_5.pack(index, 0, base_offset, log_append_time_ms)
    else:
        figures = _FIGURES.pack(index, 0, base_offset, log_append_time_ms, log_start_offset)
    return before + figures + after


@lru_cache(maxsize=LAYOUTS_MAX)
def _layout(version: int, topic_key: str | UUID) -> tuple[bytes, bytes]:
    """The bytes before and after the figures of a response."""
    name, topic_id = (topic_key, ZERO_UUID) if isinstance(topic_key, str) else ("", topic_key)
    partition = PartitionProduceResponse(
        index=_INDEX,
        error_code=ErrorCode.NONE,
        base_offset=0,
        log_append_time_ms=0,
        log_start_offset=0,
    )
    topic = TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[partition])
    body = encoder(ProduceResponse, version)(ProduceResponse(responses=[topic]))
    figures = _FIGURES_BEFORE_5 if version < LOG_START_FROM else _FIGURES
    position = body.rindex(_INDEX.to_bytes(4, "big"))
    return body[:position], body[position + figures.size :]


def with_throttle_time(body: bytes, version: int, throttle_ms: int) -> bytes:
    """The body of an encoded response with another throttle time."""
    end = len(body) - 1 if version >= FLEXIBLE_FROM else len(body)  # an empty set of tags
    return body[: end - 4] + throttle_ms.to_bytes(4, "big") + body[end:]
