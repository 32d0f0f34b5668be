"""The headers of requests and responses, against their declarations and the reference codec."""

from __future__ import annotations

import pytest

from odradek.protocol.api_keys import UNDECLARED, ApiKey, messages_of
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.headers import (
    RequestHeader,
    decode_request_header,
    encode_request_header,
    request_header_version,
    response_header_version,
)
from odradek.protocol.schema import schema_of
from tests.support import reference_codec as codec
from tests.support.declarations import versions_of

DECLARED = [key for key in ApiKey if key not in UNDECLARED]
CLIENT_IDS = (None, "", "kafka-python", "größe", "x" * 300)


@pytest.mark.parametrize("key", DECLARED)
def test_request_header_of_every_version_is_read_and_written(key: ApiKey) -> None:
    for version in versions_of(messages_of(key)[0]):
        header_version = request_header_version(key, version)
        for client_id in CLIENT_IDS:
            header = RequestHeader(
                api_key=key,
                version=version,
                correlation_id=77,
                client_id=client_id if header_version > 0 else None,
            )
            data = codec.encode(header, header_version)
            assert encode_request_header(key, version, 77, client_id) == data
            view = memoryview(b"..." + data + b"body")
            assert decode_request_header(view, 3) == (header, 3 + len(data))


def test_header_versions_follow_the_flexible_versions_with_two_exceptions() -> None:
    for key in DECLARED:
        for version in versions_of(messages_of(key)[0]):
            is_flexible = version in schema_of(messages_of(key)[0]).flexible
            is_oldest = key is ApiKey.CONTROLLED_SHUTDOWN and version == 0
            is_for_strangers = key is ApiKey.API_VERSIONS
            assert request_header_version(key, version) == (0 if is_oldest else 1 + is_flexible)
            expected = is_flexible and not is_for_strangers
            assert response_header_version(key, version) == expected


def test_header_that_is_cut_anywhere_is_a_decode_error() -> None:
    data = memoryview(encode_request_header(ApiKey.FETCH, 12, 1, "client"))
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            decode_request_header(data[:size], 0)


@pytest.mark.parametrize(
    "data",
    [
        "0001 0004 00000001 fffe",  # a client id of -2 bytes
        "0001 0004 00000001 0002 c328",  # not UTF-8
        "0001 000c 00000001 ffff 01 00 05 00",  # a tag that runs over the end
        "0001 000c 00000001 ffff ffffffffff0f",  # a varint of 6 bytes
    ],
)
def test_header_that_breaks_the_rules_is_a_decode_error(data: str) -> None:
    with pytest.raises(DecodeError):
        decode_request_header(memoryview(bytes.fromhex(data)), 0)


def test_tags_of_a_header_are_skipped() -> None:
    data = bytes.fromhex("0001 000c 00000009 ffff 01 07 02 abcd") + b"body"
    header, position = decode_request_header(memoryview(data), 0)
    assert (header.correlation_id, header.client_id) == (9, None)
    assert data[position:] == b"body"


@pytest.mark.parametrize("key", [-1, 93, 1000, 32767, -32768])
def test_header_of_an_unknown_key_is_decoded_to_the_correlation_id(key: int) -> None:
    data = encode_request_header(key, 3, 1234, "stranger")
    header, position = decode_request_header(memoryview(data), 0)
    assert (header.api_key, header.version, header.correlation_id) == (key, 3, 1234)
    assert position == len(data)


def test_future_version_of_api_versions_has_a_flexible_request_header_only() -> None:
    data = encode_request_header(ApiKey.API_VERSIONS, 99, 5, "c")
    assert data.endswith(b"c\0")
    assert decode_request_header(memoryview(data), 0)[0].version == 99
    assert response_header_version(ApiKey.API_VERSIONS, 99) == 0
