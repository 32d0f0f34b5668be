"""Large messages are freed in steps, unless something else refers to them."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from odradek.protocol.disposal import LARGE, STEP_ELEMENTS, dispose_in_steps
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


def flat(count: int) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=str(n)) for n in range(count)])


def nested(count: int) -> ListOffsetsRequest:
    partitions = [ListOffsetsPartition(partition_index=n, timestamp_ms=-1) for n in range(count)]
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="topic", partitions=partitions)]
    )


@pytest.mark.parametrize("make", [flat, nested])
def test_large_message_is_freed_in_steps(make: Any) -> None:
    steps = sum(1 for _ in dispose_in_steps([make(10 * LARGE)]))
    assert 10 * LARGE // STEP_ELEMENTS - 2 <= steps <= 10 * LARGE // STEP_ELEMENTS


def test_small_message_takes_no_step() -> None:
    assert list(dispose_in_steps([flat(3), nested(3), None])) == []


def test_message_that_is_referred_to_keeps_its_elements() -> None:
    message = flat(10 * LARGE)
    assert list(dispose_in_steps([message])) == []
    assert message.topics is not None
    assert len(message.topics) == 10 * LARGE


def test_array_that_is_referred_to_keeps_its_elements() -> None:
    message = flat(10 * LARGE)
    topics = message.topics
    messages = [message]
    del message
    assert list(dispose_in_steps(messages)) == []
    assert topics is not None
    assert len(topics) == 10 * LARGE


def test_list_of_messages_is_empty_afterwards() -> None:
    class Referable(MetadataRequest):  # a message itself has no weak references
        pass

    message = Referable(topics=[])
    seen = weakref.ref(message)
    messages = [message]
    del message
    assert list(dispose_in_steps(messages)) == []
    assert messages == []
    assert seen() is None
