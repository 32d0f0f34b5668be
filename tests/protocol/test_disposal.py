"""Large messages are freed in steps, and what something else refers to stays whole."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from odradek.protocol.disposal import LARGE, STEP_ELEMENTS, STEP_SLICES, dispose_in_steps
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


class CountedTopic(MetadataRequestTopic):
    """A topic that reports when it is freed; an element has no weak references."""

    freed = 0

    def __del__(self) -> None:
        CountedTopic.freed += 1


def step_count(elements: int) -> int:
    return elements // STEP_ELEMENTS + elements // (STEP_ELEMENTS * STEP_SLICES)


@pytest.mark.parametrize("make", [flat, nested])
@pytest.mark.parametrize("count", [2 * LARGE, 10 * LARGE, 50 * LARGE])
def test_large_message_is_freed_in_steps(make: Any, count: int) -> None:
    steps = sum(1 for _ in dispose_in_steps([make(count)]))
    assert step_count(count) - 2 <= steps <= step_count(count)


@pytest.mark.parametrize("make", [flat, nested])
def test_steps_depend_on_the_length_and_not_on_references(make: Any) -> None:
    message = make(10 * LARGE)
    steps = sum(1 for _ in dispose_in_steps([message]))
    assert steps == sum(1 for _ in dispose_in_steps([make(10 * LARGE)]))


def test_each_step_frees_a_bounded_number_of_elements() -> None:
    CountedTopic.freed = 0
    topics: list[Any] = [CountedTopic(name=str(number)) for number in range(10 * LARGE)]
    messages = [MetadataRequest(topics=topics)]
    del topics
    before = 0
    for _ in dispose_in_steps(messages):
        assert CountedTopic.freed - before <= STEP_ELEMENTS
        before = CountedTopic.freed
    assert CountedTopic.freed == 10 * LARGE


def test_small_message_takes_no_step() -> None:
    assert list(dispose_in_steps([flat(3), nested(3), None])) == []


def test_message_that_is_referred_to_keeps_its_elements() -> None:
    message = flat(10 * LARGE)
    assert list(dispose_in_steps([message]))
    assert message.topics is not None
    assert len(message.topics) == 10 * LARGE


def test_array_that_is_referred_to_keeps_its_elements() -> None:
    message = flat(10 * LARGE)
    topics = message.topics
    messages = [message]
    del message
    assert list(dispose_in_steps(messages))
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
