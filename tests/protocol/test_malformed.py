"""Bytes that are no message: DecodeError or a value, and little memory for false lengths."""

from __future__ import annotations

import tracemalloc
from functools import partial
from random import Random
from typing import Any

import pytest

from odradek.protocol.compiler import decoder, encoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.decoder_source import make_uuid
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.schema import schema_of
from tests.support import reference_codec as codec
from tests.support.declarations import SEED, ValueMaker, declared_classes, versions_of

CLASSES = declared_classes()
FLIPS_PER_VERSION = 30
FALSE_LENGTHS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff" * 8, b"\x80" * 8)
"""The largest int32, the largest length of a varint, minus one or a varint without end."""

BYTES_PER_BYTE = 400
"""An object of many fields from one byte each; the lists of an array add their spare places."""


def small_encodings(cls: type, name: str) -> list[tuple[int, bytes]]:
    """A short encoding for each version."""
    encodings = []
    for version in versions_of(cls):
        maker = ValueMaker(f"{name} {version}", is_small=True)
        encodings.append((version, encoder(cls, version)(maker.message(cls, version))))
    return encodings


def outcome(decode: Any, data: bytes | bytearray) -> Any:
    """The value and its end, or the class of the error."""
    try:
        return decode(memoryview(data), 0)
    except DecodeError:
        return DecodeError


def encoded(version: int, result: Any) -> Any:
    """An outcome with the bytes of the value, because a flipped double may be a NaN."""
    return result if result is DecodeError else (codec.encode(result[0], version), result[1])


@pytest.mark.parametrize("name", CLASSES)
def test_input_cut_anywhere_is_a_decode_error(name: str) -> None:
    cls = CLASSES[name]
    for version, data in small_encodings(cls, name):
        decode = decoder(cls, version)
        for size in range(len(data)):
            with pytest.raises(DecodeError):
                decode(memoryview(data)[:size], 0)


@pytest.mark.parametrize("name", CLASSES)
def test_flipped_bits_decode_as_by_the_reference_codec(name: str) -> None:
    cls = CLASSES[name]
    random = Random(f"{SEED} {name}")
    for version, data in small_encodings(cls, name):
        decode = decoder(cls, version)
        for _ in range(FLIPS_PER_VERSION if data else 0):
            flipped = bytearray(data)
            for _ in range(random.randint(1, 3)):
                flipped[random.randrange(len(data))] ^= 1 << random.randrange(8)
            ours = outcome(decode, flipped)
            expected = outcome(partial(codec.decode, cls, version), flipped)
            assert encoded(version, ours) == encoded(version, expected)


@pytest.mark.parametrize("name", CLASSES)
def test_false_lengths_allocate_nothing_large(name: str) -> None:
    cls = CLASSES[name]
    version, data = small_encodings(cls, name)[-1]
    decode = decoder(cls, version)
    bound = 20_000 + BYTES_PER_BYTE * len(data)
    make_uuid.cache_clear()  # its table grows by jumps, up to its bound
    tracemalloc.start()
    try:
        for position in range(0, len(data), max(1, len(data) // 60)):
            for false_length in FALSE_LENGTHS:
                damaged = data[:position] + false_length + data[position + len(false_length) :]
                tracemalloc.reset_peak()
                before, _ = tracemalloc.get_traced_memory()
                outcome(decode, damaged)
                _, peak = tracemalloc.get_traced_memory()
                assert peak - before < bound
    finally:
        tracemalloc.stop()


def test_random_bytes_are_refused_or_decoded() -> None:
    random = Random(SEED)
    for name, cls in CLASSES.items():
        decode = decoder(cls, versions_of(cls)[-1])
        for size in (0, 1, 7, 40, 300):
            assert outcome(decode, random.randbytes(size)) is not None, name


@pytest.mark.parametrize(
    ("cls", "version", "data"),
    [
        (ProduceRequest, 2, "0001 00000064 00000001 ffff"),  # a null topic
        (ProduceRequest, 2, "0001 00000064 ffffffff"),  # a null array
        (ProduceRequest, 2, "0001 00000064 fffffffe"),  # a count of -2
        (ProduceRequest, 9, "00 0001 00000064 00 00"),  # a null array
        (ProduceRequest, 9, "01 0001 00000064 8080808080808001 00"),  # a varint of 8 bytes
        (ProduceRequest, 3, "fffe 0001 00000064 00000000"),  # a length of -2
        (MetadataRequest, 1, "00000001 0002 c328"),  # not UTF-8
        (MetadataRequest, 9, "00 00 00 00 01 00 05 0000"),  # a tag that runs over the end
        (MetadataRequest, 9, "00 00 00 00 ffffffff0f"),  # four milliards of tags
    ],
)
def test_value_that_the_protocol_forbids_is_a_decode_error(
    cls: type, version: int, data: str
) -> None:
    view = memoryview(bytes.fromhex(data))
    with pytest.raises(DecodeError):
        decoder(cls, version)(view, 0)
    with pytest.raises(DecodeError):
        codec.decode(cls, version, view)


def test_error_names_message_version_and_field() -> None:
    data = memoryview(bytes.fromhex("0001 00000064 00000001 0009 61 00000000"))
    with pytest.raises(DecodeError, match="ProduceRequest version 2: length of name"):
        decoder(ProduceRequest, 2)(data, 0)
    with pytest.raises(DecodeError, match="ProduceRequest version 2: unpack"):
        decoder(ProduceRequest, 2)(data[:3], 0)


def test_unknown_tags_are_skipped() -> None:
    plain = memoryview(bytes.fromhex("00 00 00 00 00"))
    tagged = memoryview(bytes.fromhex("00 00 00 00 02 05 03 aabbcc ff7f 00"))
    value, end = decoder(MetadataRequest, 9)(plain, 0)
    assert end == len(plain)
    assert decoder(MetadataRequest, 9)(tagged, 0) == (value, len(tagged))


class NewerWriter(codec.Writer):
    """Writes as a newer version would that has one more tagged field in every structure."""

    def structure(self, value: object) -> None:
        schema = schema_of(type(value))
        for each in schema.plain_fields(self.version):
            self.field(getattr(value, each.name), each)
        if not self.is_flexible:
            return
        tagged = schema.tagged_fields(self.version)
        written = [
            each for each in tagged if not codec.has_default(getattr(value, each.name), each)
        ]
        self.uvarint(len(written) + 1)
        for each in written:
            content = NewerWriter(self.version, is_flexible=True)
            content.tagged(getattr(value, each.name), each)
            self.uvarint(each.tag or 0)
            self.uvarint(len(content.output))
            self.output += content.output
        self.uvarint(300)
        self.uvarint(3)
        self.output += b"new"


@pytest.mark.parametrize("name", CLASSES)
def test_unknown_tags_in_every_structure_are_skipped(name: str) -> None:
    cls = CLASSES[name]
    for version in versions_of(cls):
        value = ValueMaker(f"{name} {version}").message(cls, version)
        writer = NewerWriter(version, is_flexible=version in schema_of(cls).flexible)
        writer.structure(value)
        data = bytes(writer.output)
        assert decoder(cls, version)(memoryview(data), 0) == (value, len(data))
