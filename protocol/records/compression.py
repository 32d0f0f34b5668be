"""The four codecs, with a bound on what comes out; each library is imported when first needed.

    1  gzip    RFC 1952; further members are read as Java's GZIPInputStream does
    2  snappy  written in xerial framing as Java does; read in that and as a raw block (librdkafka)
    3  lz4     one LZ4 frame of independent 64 KiB blocks (Java's reader refuses linked ones)
    4  zstd    RFC 8878; further frames are read

Xerial framing, numbers big-endian:

    position  bytes  field
    0         8      82 53 4e 41 50 50 59 00
    8         4      version 1
    12        4      oldest version that can read it, 1
    16        4 + n  size n and a raw snappy block, repeated; a header may come between

Differs from Kafka: it has no bound when it decompresses; here a batch that would grow beyond
`output_bytes_max` is INVALID_RECORD, and so is one that its codec cannot read, where Kafka returns
UNKNOWN_SERVER_ERROR.  CORRUPT_MESSAGE would be wrong: the checksum fits, and clients send again
what was corrupted on its way.

Source: Kafka's Compression classes; KIP-110 (zstd), KIP-390 (levels); xerial/snappy-java.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from odradek.protocol.errors import BrokerError, ErrorCode

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_INT32: Final = Struct(">i")
# Three bytes of a snappy block name at most 64 bytes of output.
_SNAPPY_GROWTH_MAX: Final = 22
_ZSTD_BLOCK_BYTES_MAX: Final = 128 * 1024
_ZSTD_REPEATED_BYTE: Final = 1
_STEP_BYTES_MIN: Final = 64 * 1024
_STEP_BYTES_MAX: Final = 1024 * 1024
# Kafka's level for lz4 means its fast compressor at 9, and the thorough one at any other.
_LZ4_DEFAULT_LEVEL: Final = 9
_LZ4_THOROUGH_LEVEL_MIN: Final = 3
_LZ4_THOROUGH_LEVEL_MAX: Final = 12

Input = bytes | bytearray | memoryview


def decompress(codec: int, data: memoryview, *, output_bytes_max: int) -> bytes | bytearray:
    """What `data` was before it was compressed.

    codec             1 to 4
    output_bytes_max  no more is allocated for output (and once as much again while it grows)
    raises            INVALID_RECORD when the data is damaged, ends early or grows beyond the bound;
                      UNSUPPORTED_COMPRESSION_TYPE for another codec
    """
    reader = _READERS.get(codec)
    if reader is None:
        raise _unknown(codec)
    return reader(data, output_bytes_max)


def compress(codec: int, data: Input, level: int | None = None) -> bytes | bytearray:
    """Compress for the records part of a batch.

    codec   1 to 4
    level   as the topic's compression.<codec>.level counts; None for the codec's default
    raises  UNSUPPORTED_COMPRESSION_TYPE for another codec
    """
    writer = _WRITERS.get(codec)
    if writer is None:
        raise _unknown(codec)
    return writer(data, level)


def _unknown(codec: int) -> BrokerError:
    return BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type {codec}")


def _too_large(codec: str, output_bytes_max: int) -> BrokerError:
    return BrokerError(
        ErrorCode.INVALID_RECORD,
        f"records compressed with {codec} grow beyond {output_bytes_max} bytes",
    )


def _damaged(codec: str, reason: object) -> BrokerError:
    return BrokerError(
        ErrorCode.INVALID_RECORD, f"Failed to decompress record stream ({codec}: {reason})"
    )


def _step_bytes(input_bytes: int) -> int:
    return min(max(input_bytes * 4, _STEP_BYTES_MIN), _STEP_BYTES_MAX)


def _read_gzip(data: memoryview, output_bytes_max: int) -> bytes | bytearray:
    import zlib

    output: bytes | bytearray = b""
    rest: Input = data
    while rest:
        member = zlib.decompressobj(31)
        try:
            part = member.decompress(rest, output_bytes_max - len(output) + 1)
        except zlib.error as error:
            if output and bytes(rest[:2]) != b"\x1f\x8b":
                return output
            raise _damaged("gzip", error) from None
        output = output + part if output else part
        if len(output) > output_bytes_max:
            raise _too_large("gzip", output_bytes_max)
        if not member.eof:
            raise _damaged("gzip", "it ends early")
        rest = member.unused_data
    if not len(data):
        raise _damaged("gzip", "it is empty")
    return output


def _read_snappy(data: memoryview, output_bytes_max: int) -> bytes | bytearray:
    if bytes(data[:8]) != XERIAL_MAGIC:
        return _read_snappy_block(data, output_bytes_max)
    output = bytearray()
    position = len(_XERIAL_HEADER)
    end = len(data)
    if position > end:
        raise _damaged("snappy", "it ends early")
    while position < end:
        if bytes(data[position : position + 8]) == XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            continue
        if position + 4 > end:
            raise _damaged("snappy", "it ends early")
        (size,) = _INT32.unpack_from(data, position)
        position += 4
        if size < 0 or size > end - position:
            raise _damaged("snappy", f"a block of {size} bytes where {end - position} are left")
        block = data[position : position + size]
        output += _read_snappy_block(block, output_bytes_max - len(output))
        position += size
    return output


def _read_snappy_block(block: memoryview, output_bytes_max: int) -> bytes:
    import snappy

    # Checked first: the library allocates what the block claims to hold.
    size = _snappy_output_bytes(block)
    if size > output_bytes_max:
        raise _too_large("snappy", output_bytes_max)
    if size > _SNAPPY_GROWTH_MAX * len(block):
        raise _damaged("snappy", f"{len(block)} bytes cannot hold {size}")
    try:
        output: bytes = snappy.uncompress(block)
    except snappy.UncompressError as error:
        raise _damaged("snappy", error.__cause__ or error) from None
    return output


def _snappy_output_bytes(block: memoryview) -> int:
    """The size of the output, which stands before a block as an unsigned varint."""
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise _damaged("snappy", "no size stands before the block")


def _read_lz4(data: memoryview, output_bytes_max: int) -> bytes | bytearray:
    import lz4.frame

    decompressor = lz4.frame.LZ4FrameDecompressor()
    step_bytes = min(_step_bytes(len(data)), output_bytes_max + 1)
    try:
        part = decompressor.decompress(data, max_length=step_bytes)
        if decompressor.eof:
            output: bytes | bytearray = part
        else:
            output = bytearray(part)
            while not decompressor.eof and part and len(output) <= output_bytes_max:
                part = decompressor.decompress(b"", max_length=step_bytes)
                output += part
    except RuntimeError as error:
        raise _damaged("lz4", error) from None
    if len(output) > output_bytes_max:
        raise _too_large("lz4", output_bytes_max)
    if not decompressor.eof:
        raise _damaged("lz4", "it ends early")
    return output


def _read_zstd(data: memoryview, output_bytes_max: int) -> bytes | bytearray:
    import zstandard

    try:
        frames, output_bytes_bound = _measure_zstd(data)
        size = zstandard.get_frame_parameters(data).content_size
        if size == zstandard.CONTENTSIZE_UNKNOWN:
            size = output_bytes_bound
        elif size > output_bytes_bound:
            raise _damaged("zstd", f"{len(data)} bytes cannot hold {size}")
        if frames == 1 and size <= output_bytes_max:
            return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
        return _stream_zstd(data, output_bytes_max)
    except zstandard.ZstdError as error:
        raise _damaged("zstd", error) from None


def _stream_zstd(data: memoryview, output_bytes_max: int) -> bytearray:
    import zstandard

    step_bytes = min(_step_bytes(len(data)), output_bytes_max + 1)
    reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    output = bytearray()
    while part := reader.read(step_bytes):
        output += part
        if len(output) > output_bytes_max:
            raise _too_large("zstd", output_bytes_max)
    return output


def _measure_zstd(data: memoryview) -> tuple[int, int]:
    """How many frames there are, and more bytes than they can hold; walks over block headers.

    The library takes a stream that ends early for one that ends, so this is where it is seen.
    source  RFC 8878, section 3.1
    """
    import zstandard

    position = frames = output_bytes_bound = 0
    end = len(data)
    while position < end:
        frames += 1
        if (
            bytes(data[position + 1 : position + 4]) == b"\x2a\x4d\x18"
            and data[position] & 0xF0 == 0x50
        ):
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
            continue
        has_checksum = zstandard.get_frame_parameters(data[position:]).has_checksum
        position += zstandard.frame_header_size(data[position:])
        is_last = False
        while not is_last:
            block = int.from_bytes(data[position : position + 3], "little")
            is_last = block & 1 == 1
            kind = block >> 1 & 3
            position += 3 + (1 if kind == _ZSTD_REPEATED_BYTE else block >> 3)
            output_bytes_bound += _ZSTD_BLOCK_BYTES_MAX
            if position > end:
                raise _damaged("zstd", "it ends early")
        position += 4 if has_checksum else 0
    if position != end or not frames:
        raise _damaged("zstd", "it ends early")
    return frames, output_bytes_bound


def _write_gzip(data: Input, level: int | None) -> bytes:
    import zlib

    compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
    return compressor.compress(data) + compressor.flush()


def _write_snappy(data: Input, level: int | None) -> bytearray:
    import snappy

    view = memoryview(data)
    output = bytearray(_XERIAL_HEADER)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = snappy.compress(view[start : start + _XERIAL_BLOCK_BYTES])
        output += _INT32.pack(len(block))
        output += block
    return output


def _write_lz4(data: Input, level: int | None) -> bytes:
    import lz4.frame

    if level is None or level == _LZ4_DEFAULT_LEVEL:
        level = 0
    else:
        level = min(max(level, _LZ4_THOROUGH_LEVEL_MIN), _LZ4_THOROUGH_LEVEL_MAX)
    compressed: bytes = lz4.frame.compress(
        data,
        compression_level=level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def _write_zstd(data: Input, level: int | None) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)


_READERS: Final[dict[int, Callable[[memoryview, int], bytes | bytearray]]] = {
    GZIP: _read_gzip,
    SNAPPY: _read_snappy,
    LZ4: _read_lz4,
    ZSTD: _read_zstd,
}
_WRITERS: Final[dict[int, Callable[[Input, int | None], bytes | bytearray]]] = {
    GZIP: _write_gzip,
    SNAPPY: _write_snappy,
    LZ4: _write_lz4,
    ZSTD: _write_zstd,
}
