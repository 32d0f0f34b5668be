"""Codecs: round trips, what other writers produce, damage, bombs."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.compression import (
    GZIP,
    LZ4,
    SNAPPY,
    XERIAL_MAGIC,
    ZSTD,
    compress,
    decompress,
)
from tests.support.record_batches import COMPRESSED

MEBIBYTE = 1 << 20
NAMES = ("gzip", "snappy", "lz4", "zstd")
TEXT = b"".join(b'{"id":%d,"name":"user%d"}\n' % (i, i * 7919 % 1000) for i in range(40_000))


def expand(codec: int, data: bytes | bytearray, output_bytes_max: int = 64 * MEBIBYTE) -> bytes:
    return bytes(decompress(codec, memoryview(data), output_bytes_max=output_bytes_max))


def refused(codec: int, data: bytes | bytearray, output_bytes_max: int = 64 * MEBIBYTE) -> bool:
    try:
        expand(codec, data, output_bytes_max)
    except BrokerError as error:
        return error.code == ErrorCode.INVALID_RECORD
    return False


@pytest.mark.parametrize("codec", COMPRESSED, ids=NAMES)
@pytest.mark.parametrize("size", [0, 1, 100, 32_768, 32_769, 65_536, 1_000_000])
def test_compressed_bytes_are_decompressed_unchanged_within_their_own_size(
    codec: int, size: int
) -> None:
    data = TEXT[:size]
    assert len(data) == size
    compressed = compress(codec, memoryview(data))
    assert expand(codec, compressed) == data
    assert expand(codec, compressed, size) == data
    if size:
        assert refused(codec, compressed, size - 1)
    if size > 100:
        assert len(compressed) < size


@given(st.sampled_from(COMPRESSED), st.binary(max_size=2000), st.integers(1, 50))
def test_any_bytes_survive_the_round_trip(codec: int, data: bytes, times: int) -> None:
    assert expand(codec, compress(codec, data * times)) == data * times


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(GZIP, (-1, 1, 9)), (LZ4, (1, 2, 9, 12, 17)), (ZSTD, (-131072, -1, 1, 3, 22))],
)
def test_every_compression_level_of_a_topic_is_accepted(
    codec: int, levels: tuple[int, ...]
) -> None:
    for level in levels:
        assert expand(codec, compress(codec, TEXT[:50_000], level)) == TEXT[:50_000]


def test_unknown_codec_is_unsupported() -> None:
    for codec in (0, 5, 6, 7):
        for act in (partial(expand, codec, b"x"), partial(compress, codec, b"x")):
            with pytest.raises(BrokerError) as caught:
                act()
            assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def streamed_zstd(data: bytes) -> bytes:
    """As the Java client writes it: the frame does not tell its size."""
    output = io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(output, closefd=False) as writer:
        writer.write(data)
    return output.getvalue()


OTHERS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip with a name and a time": (GZIP, lambda data: gzip.compress(data, 1, mtime=1234)),
    "snappy as one raw block": (SNAPPY, lambda data: snappy.compress(data)),
    "lz4 linked blocks": (LZ4, lambda data: bytes(lz4.frame.compress(data, block_linked=True))),
    "lz4 with checksums and size": (
        LZ4,
        lambda data: bytes(
            lz4.frame.compress(data, content_checksum=True, block_checksum=True, store_size=True)
        ),
    ),
    "lz4 of the largest blocks": (
        LZ4,
        lambda data: bytes(lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
    ),
    "zstd of unknown size": (ZSTD, streamed_zstd),
    "zstd with a checksum": (
        ZSTD,
        lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
    ),
}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_framings_of_other_writers_are_decompressed(name: str) -> None:
    codec, write = OTHERS[name]
    for size in (0, 10, 200_000, len(TEXT)):
        assert expand(codec, write(TEXT[:size])) == TEXT[:size]
    assert refused(codec, write(TEXT), len(TEXT) - 1)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, ZSTD], ids=["gzip", "snappy", "zstd"])
def test_consecutive_streams_are_decompressed_as_one(codec: int) -> None:
    twice = bytes(compress(codec, TEXT[:1000])) + bytes(compress(codec, TEXT[1000:3000]))
    assert expand(codec, twice) == TEXT[:3000]
    assert refused(codec, twice, 2999)


def test_zstd_skips_frames_that_say_so() -> None:
    skipped = b"\x53\x2a\x4d\x18\x03\x00\x00\x00abc"
    frame = streamed_zstd(TEXT[:1000])
    assert expand(ZSTD, skipped + frame + skipped) == TEXT[:1000]
    assert refused(ZSTD, frame + skipped[:-1])


def test_bytes_after_the_end_are_treated_as_by_kafka() -> None:
    """Apache Kafka 3.9.2 reads the first three and refuses the last."""
    for codec in (GZIP, LZ4):
        assert expand(codec, bytes(compress(codec, TEXT[:1000])) + b"xyz") == TEXT[:1000]
    assert expand(LZ4, bytes(compress(LZ4, b"one")) + bytes(compress(LZ4, b"two"))) == b"one"
    assert refused(ZSTD, bytes(compress(ZSTD, TEXT[:1000])) + b"xyz")


@pytest.mark.parametrize("codec", COMPRESSED, ids=NAMES)
def test_stream_that_is_cut_is_refused_or_shorter(codec: int) -> None:
    compressed = bytes(compress(codec, TEXT[:100_000]))
    cuts = [*range(0, 64), *range(64, len(compressed), 97), len(compressed) - 1]
    for cut in cuts:
        if refused(codec, compressed[:cut]):
            continue
        # Xerial framing has no end: after a whole block it may just be over.
        assert codec == SNAPPY
        assert len(expand(codec, compressed[:cut])) % 32_768 == 0


@given(st.sampled_from(COMPRESSED), st.binary(max_size=200))
def test_garbage_is_refused_or_read(codec: int, data: bytes) -> None:
    starts = {
        GZIP: b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00",
        SNAPPY: XERIAL_MAGIC + bytes(7) + b"\x01",
        LZ4: b"\x04\x22\x4d\x18\x60\x40\x82",
        ZSTD: b"\x28\xb5\x2f\xfd",
    }
    for garbage in (data, starts[codec] + data):
        assert refused(codec, garbage, 100_000) or len(expand(codec, garbage)) <= 100_000


@given(st.sampled_from(COMPRESSED), st.data())
def test_flipped_bits_raise_only_broker_errors(codec: int, data: st.DataObject) -> None:
    damaged = bytearray(compress(codec, TEXT[:3000]))
    for _ in range(data.draw(st.integers(1, 3))):
        bit = data.draw(st.integers(0, len(damaged) * 8 - 1))
        damaged[bit // 8] ^= 1 << bit % 8
    assert refused(codec, damaged, 100_000) or len(expand(codec, damaged)) <= 100_000


def test_false_sizes_allocate_nothing() -> None:
    false_sizes = [
        (SNAPPY, b"\xff\xff\xff\x0f" + b"abc"),
        (SNAPPY, XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1" + b"\x7f\xff\xff\xff"),
        (SNAPPY, XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1" + b"\xff\xff\xff\xff"),
        # A frame header that tells 256 MiB, then one empty block.
        (ZSTD, b"\x28\xb5\x2f\xfd\xa0\x00\x00\x00\x10" + b"\x01\x00\x00"),
    ]
    for codec, data in false_sizes:
        assert refused(codec, data, 1 << 40)


BOMB = """
import resource, sys
from odradek.protocol.errors import BrokerError
from odradek.protocol.records.compression import compress, decompress
import bz2, snappy, lz4.frame, zlib, zstandard
codec = int(sys.argv[1])
# Warm up, so that the libraries themselves do not count.
decompress(codec, memoryview(bytes(compress(codec, b"x" * 100_000))), output_bytes_max=1 << 20)
bomb = memoryview(open(sys.argv[2], "rb").read())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, bomb, output_bytes_max=1 << 20)
except BrokerError as error:
    print(error.code.name, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("codec", COMPRESSED, ids=NAMES)
def test_bomb_of_a_gibibyte_takes_no_more_than_its_bound(codec: int, tmp_path: Path) -> None:
    """In a child, for only there the greatest memory ever used says something."""
    piece = bytes(64 * MEBIBYTE)
    if codec == GZIP:
        bomb = gzip.compress(piece, 1) * 16
    elif codec == SNAPPY:
        framed = bytes(compress(codec, piece[: 4 * MEBIBYTE]))
        bomb = framed[:16] + framed[16:] * 256
    elif codec == LZ4:
        blocks = bytes(compress(codec, piece))
        bomb = blocks[:7] + blocks[7:-4] * 16 + bytes(4)
    else:
        bomb = streamed_zstd(piece) * 16
    (tmp_path / "bomb").write_bytes(bomb)
    done = subprocess.run(
        [sys.executable, "-c", BOMB, str(codec), str(tmp_path / "bomb")],
        capture_output=True,
        check=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    name, grown_kib = done.stdout.split()
    assert name == "INVALID_RECORD"
    # Twice the bound while the output grows, the window of zstd, and the allocator's own.
    assert int(grown_kib) < 8 * 1024


def test_no_library_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys\n"
        "import odradek.protocol.records.validate, odradek.protocol.records.recompress\n"
        "names = ('cramjam', 'snappy', 'lz4', 'zstandard', 'zlib')\n"
        "print([name for name in names if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", "import sys; sys.path.insert(0, '.')\n" + code],
        capture_output=True,
        check=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout.strip() in ("[]", "['zlib']")
