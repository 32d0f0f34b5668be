"""Generators that decode and encode in steps, beside the functions that do it at once; bounds."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from odradek.protocol.compiler import decoder, encoder, step_decoder, step_encoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.gathered import PART_BYTES, Gathered
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.uvarint import TAGS_MAX, encode_uvarint
from tests.support import reference_codec as codec
from tests.support.declarations import ValueMaker, declared_classes, versions_of

CLASSES = declared_classes()
ENOUGH = 1_000_000

Decode = Callable[[type, int, memoryview], Any]


def result_of(steps: Generator[None, None, Any]) -> tuple[Any, int]:
    """The result, and the number of steps."""
    count = 0
    try:
        while True:
            next(steps)
            count += 1
    except StopIteration as stop:
        return stop.value, count


@pytest.mark.parametrize("name", CLASSES)
def test_steps_lead_to_what_is_made_at_once(name: str) -> None:
    cls = CLASSES[name]
    versions = list(versions_of(cls))
    for version in {versions[0], versions[-1]}:
        value = ValueMaker(f"{name} in steps").message(cls, version)
        data = encoder(cls, version)(value)
        view = memoryview(bytearray(b"ab" + data + b"c"))
        decoded, _ = result_of(step_decoder(cls, version)(view, 2, ENOUGH))
        assert decoded == (value, 2 + len(data))
        gathered = Gathered()
        result_of(step_encoder(cls, version)(value, gathered))
        assert b"".join(gathered.finish()) == data
        assert gathered.size_bytes == gathered.held_bytes == len(data)


def names(count: int, text: str = "name") -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=text) for _ in range(count)])


def test_each_element_is_a_step_and_all_of_them_are_counted() -> None:
    view = memoryview(encoder(MetadataRequest, 9)(names(1_000)))
    assert result_of(step_decoder(MetadataRequest, 9)(view, 0, 1_000))[1] == 1_000
    with pytest.raises(DecodeError, match="too many elements"):
        result_of(step_decoder(MetadataRequest, 9)(view, 0, 999))


def test_large_message_is_encoded_in_parts_of_about_the_same_size() -> None:
    request = names(20_000, "x" * 200)
    gathered = Gathered()
    _, steps = result_of(step_encoder(MetadataRequest, 9)(request, gathered))
    parts = gathered.finish()
    assert b"".join(parts) == encoder(MetadataRequest, 9)(request)
    assert steps > 500
    assert max(map(len, parts)) < 2 * PART_BYTES


class Slice:
    """Stands for a slice of a file: has a length and no bytes."""

    def __len__(self) -> int:
        return 1_000


def test_slices_of_files_keep_their_places_and_are_no_memory() -> None:
    slices = [Slice() for _ in range(500)]
    partitions = [
        PartitionData(partition_index=number, error_code=0, high_watermark=0, records=records)
        for number, records in enumerate(slices)
    ]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])
    gathered = Gathered()
    result_of(step_encoder(FetchResponse, 11)(response, gathered))
    parts = gathered.finish()
    assert [part for part in parts if isinstance(part, Slice)] == slices
    assert gathered.size_bytes == sum(map(len, parts))
    assert gathered.held_bytes == gathered.size_bytes - 500 * 1_000


DECODERS: dict[str, Decode] = {
    "at once": lambda cls, version, view: decoder(cls, version)(view, 0)[0],
    "in steps": lambda cls, version, view: result_of(step_decoder(cls, version)(view, 0, ENOUGH))[
        0
    ][0],
    "reference": lambda cls, version, view: codec.decode(cls, version, view)[0],
}


@pytest.mark.parametrize("how", DECODERS)
@pytest.mark.parametrize("version", [8, 9])
def test_string_has_at_most_32767_bytes_in_every_encoding(how: str, version: int) -> None:
    decode = DECODERS[how]
    longest = names(1, "x" * 0x7FFF)
    assert decode(MetadataRequest, version, memoryview(codec.encode(longest, version))) == longest
    if version == 9:
        longer = memoryview(codec.encode(names(1, "x" * 0x8000), version))
        with pytest.raises(DecodeError, match="string"):
            decode(MetadataRequest, version, longer)


@pytest.mark.parametrize("how", DECODERS)
def test_structure_has_at_most_a_thousand_tagged_fields(how: str) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["k"])
    data = encoder(FindCoordinatorRequest, 4)(request)
    assert data.endswith(b"\0")
    for count, fits in ((TAGS_MAX, True), (TAGS_MAX + 1, False)):
        tags = b"".join(encode_uvarint(tag) + b"\0" for tag in range(count))
        view = memoryview(data[:-1] + encode_uvarint(count) + tags)
        if fits:
            assert DECODERS[how](FindCoordinatorRequest, 4, view) == request
        else:
            with pytest.raises(DecodeError, match="tagged section"):
                DECODERS[how](FindCoordinatorRequest, 4, view)
