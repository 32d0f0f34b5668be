"""The generated functions against the reference codec, for every class and version."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.protocol.compiler import decoder, encoder, parts_encoder
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.schema import RECORDS, ArrayOf, schema_of
from tests.support import reference_codec as codec
from tests.support.declarations import ValueMaker, declared_classes, versions_of

VALUES_PER_VERSION = 8
CLASSES = declared_classes()


class Slice:
    """Stands for a slice of a file: has a length and no bytes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def has_records(cls: type) -> bool:
    types = [each.type for each in schema_of(cls).fields]
    inner = [each.element if isinstance(each, ArrayOf) else each for each in types]
    return RECORDS in inner or any(isinstance(each, type) and has_records(each) for each in inner)


@pytest.mark.parametrize("name", CLASSES)
def test_generated_functions_agree_with_the_reference_codec(name: str) -> None:
    cls = CLASSES[name]
    for version in versions_of(cls):
        maker = ValueMaker(f"{name} {version}")
        encode, decode = encoder(cls, version), decoder(cls, version)
        for _ in range(VALUES_PER_VERSION):
            value = maker.message(cls, version)
            data = encode(value)
            assert data == codec.encode(value, version)
            view = memoryview(bytearray(b"ab" + data + b"c"))
            assert decode(view, 2) == (value, 2 + len(data))
            assert codec.decode(cls, version, view, 2) == (value, 2 + len(data))


@pytest.mark.parametrize("name", CLASSES)
def test_parts_of_a_message_without_slices_are_its_bytes(name: str) -> None:
    cls = CLASSES[name]
    for version in versions_of(cls):
        value = ValueMaker(name).message(cls, version)
        parts = parts_encoder(cls, version)(value)
        assert parts == ([codec.encode(value, version)] if codec.encode(value, version) else [])


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_slices_of_files_go_between_the_bytes(version: int) -> None:
    def response(contents: list[Any]) -> FetchResponse:
        partitions = [
            PartitionData(partition_index=index, error_code=0, high_watermark=9, records=content)
            for index, content in enumerate(contents)
        ]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])

    slices = [Slice(3), Slice(200)]
    parts = parts_encoder(FetchResponse, version)(response([slices[0], None, b"xy", slices[1]]))
    assert [part for part in parts if isinstance(part, Slice)] == slices
    kinds = [type(part) for part in parts]
    tagged_sections = [bytes] if version >= 12 else []
    assert kinds == [bytes, Slice, bytes, Slice, *tagged_sections]
    whole = b"".join(b"r" * len(part) if isinstance(part, Slice) else part for part in parts)
    expected = response([b"r" * 3, None, b"xy", b"r" * 200])
    if version > 12:
        expected.responses[0].topic = ""
    assert decoder(FetchResponse, version)(memoryview(whole), 0) == (expected, len(whole))


def test_slice_at_the_end_is_followed_by_no_empty_bytes() -> None:
    partition = PartitionProduceData(index=0, records=Slice(5))  # type: ignore[arg-type]
    topic = TopicProduceData(name="t", partition_data=[partition])
    request = ProduceRequest(acks=1, timeout_ms=5, topic_data=[topic])
    parts = parts_encoder(ProduceRequest, 3)(request)
    assert [type(part) for part in parts] == [bytes, Slice]


def test_records_are_slices_of_the_buffer_and_everything_else_is_copied() -> None:
    topic = TopicProduceData(
        name="topic", partition_data=[PartitionProduceData(index=0, records=memoryview(b"records"))]
    )
    request = ProduceRequest(acks=1, timeout_ms=5, topic_data=[topic])
    buffer = bytearray(encoder(ProduceRequest, 9)(request))
    decoded, _ = decoder(ProduceRequest, 9)(memoryview(buffer), 0)
    buffer[:] = bytes(len(buffer))
    assert decoded.topic_data[0].name == "topic"
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert bytes(records) == bytes(7)


def test_only_classes_with_records_need_parts() -> None:
    with_records = sorted(name for name, cls in CLASSES.items() if has_records(cls))
    assert with_records == ["FetchResponse", "ProduceRequest", "ShareFetchResponse"]


@pytest.mark.parametrize("make", [decoder, encoder, parts_encoder])
def test_version_that_is_not_declared_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="ProduceRequest has versions 0 to 13, not 14"):
        make(ProduceRequest, 14)


def test_functions_are_made_once() -> None:
    assert decoder(ProduceRequest, 9) is decoder(ProduceRequest, 9)
    assert encoder(ProduceRequest, 9) is encoder(ProduceRequest, 9)
