"""The codecs that the broker uses: one flat function for each class and version, made at first use.

Making one takes half a millisecond, hence the cache, which holds as many functions as there are
classes and versions.  Hot callers keep the function itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cache
from typing import Any, TypeVar

from odradek.protocol.decoder_source import DecoderSource
from odradek.protocol.encoder_source import EncoderSource
from odradek.protocol.gathered import Gathered
from odradek.protocol.generated import compile_function
from odradek.protocol.schema import schema_of

Message = TypeVar("Message")


def decoder(cls: type[Message], version: int) -> Callable[[memoryview, int], tuple[Message, int]]:
    """The function that reads a message: (buffer, position) -> (value, end position).

    It raises DecodeError for bytes that are not such a message, and nothing else.  Bytes after the
    message are the caller's concern.  RECORDS fields are slices of the buffer and keep it alive;
    everything else is copied out of it.
    """
    return _decoding(cls, version, in_steps=False)


def encoder(cls: type[Message], version: int) -> Callable[[Message], bytes]:
    """The function that writes a message; RECORDS must be bytes-like or None and are copied."""
    return _encoding(cls, version)


def parts_encoder(cls: type[Message], version: int) -> Callable[[Message], list[Any]]:
    """The function that writes a message around the records that it carries.

    It returns a list of bytes with, unchanged in between, each RECORDS value that is neither
    None nor bytes-like: a slice of a file, whose `len()` is written as its size.  No two chunks
    of bytes are adjacent.
    """
    return _encoding(cls, version, in_parts=True)


def step_decoder(
    cls: type[Message], version: int
) -> Callable[[memoryview, int, int], Generator[None, None, tuple[Message, int]]]:
    """A `decoder` for messages of which decoding takes milliseconds: (buffer, position, elements)
    -> a generator that yields between elements and returns (value, end position).

    The buffer must stay as it is until the end.  More elements of arrays, all together, than the
    third argument raise DecodeError.
    """
    return _decoding(cls, version, in_steps=True)


def step_encoder(
    cls: type[Message], version: int
) -> Callable[[Message, Gathered], Generator[None, None, None]]:
    """A `parts_encoder` for messages of which encoding takes milliseconds: (value, gathered) -> a
    generator that yields between elements; afterwards `gathered` has the parts."""
    return _encoding(cls, version, in_steps=True)


def _compile_decoder(cls: type, version: int, *, in_steps: bool) -> Callable[..., Any]:
    check_version(cls, version)
    writer = DecoderSource(cls, version, in_steps=in_steps)
    source = writer.source()
    if in_steps and "yield" not in source:
        source += "\n    yield"
    return compile_function("decode", source, writer.namespace)


def _compile_encoder(
    cls: type, version: int, *, in_parts: bool = False, in_steps: bool = False
) -> Callable[..., Any]:
    check_version(cls, version)
    writer = EncoderSource(cls, version, in_parts=in_parts, in_steps=in_steps)
    return compile_function("encode", writer.source(), writer.namespace)


_decoding: Callable[..., Callable[..., Any]] = cache(_compile_decoder)
_encoding: Callable[..., Callable[..., Any]] = cache(_compile_encoder)


def check_version(cls: type, version: int) -> None:
    """Raises ValueError for a version that is not declared: callers look at the range first."""
    versions = schema_of(cls).versions
    if version not in versions:
        supported = f"{versions.first} to {versions.last}"
        raise ValueError(f"{cls.__name__} has versions {supported}, not {version}")
