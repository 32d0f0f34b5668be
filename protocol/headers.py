"""What stands before the body of every request and response.

    request 0    int16 api key, int16 version, int32 correlation id   (ControlledShutdown 0 only)
    request 1    ... and the client id, a string that may be null
    request 2    ... and a tagged section, for flexible versions; the client id stays as it was
    response 0   int32 correlation id
    response 1   ... and a tagged section, for flexible versions, but never for ApiVersions

Source: KIP-482, KIP-511; ApiKeys.requestHeaderVersion and responseHeaderVersion of Kafka.
"""

from __future__ import annotations

import struct
from typing import Final

from odradek.protocol.api_keys import FIRST_FLEXIBLE_VERSION, ApiKey, is_flexible
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.schema import field, message
from odradek.protocol.uvarint import skip_tags

CLIENT_ID_POSITION: Final = 10
"""Bytes from the beginning of the header."""

_NEVER: Final = 1 << 15
"""Above all versions."""
_first_flexible = dict(enumerate(FIRST_FLEXIBLE_VERSION)).get

unpack_request_head = struct.Struct(">hhih").unpack_from
pack_request_head = struct.Struct(">hhi").pack


@message(versions="0-2", flexible="2+")
class RequestHeader:
    """The versions are those of the header itself, not of the request after it."""

    api_key: int = field("int16", "0+")
    version: int = field("int16", "0+")
    correlation_id: int = field("int32", "0+")
    """Comes back in the response; responses of a connection keep the order of their requests."""
    client_id: str | None = field("string", "1+", nullable="1+", default=None, flexible=False)


@message(versions="0-1", flexible="1+")
class ResponseHeader:
    """The versions are those of the header itself, not of the response after it."""

    correlation_id: int = field("int32", "0+")


def request_header_version(api_key: int, version: int) -> int:
    """0, 1 or 2; 1 for an unknown key."""
    if api_key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if is_flexible(api_key, version) else 1


def response_header_version(api_key: int, version: int) -> int:
    """0 or 1."""
    return 1 if is_flexible(api_key, version) and api_key != ApiKey.API_VERSIONS else 0


def decode_request_header(buffer: memoryview, position: int) -> tuple[RequestHeader, int]:
    """The header that begins at `position`, and where the body begins.

    An unknown key or version is not an error here: the correlation id is needed to refuse it.
    Raises DecodeError, and nothing else.
    """
    header = object.__new__(RequestHeader)
    try:
        api_key, version, header.correlation_id, size = unpack_request_head(buffer, position)
        header.api_key = api_key
        header.version = version
        if api_key == 7 and version == 0:  # ControlledShutdown, whose body has at least 2 bytes
            header.client_id = None
            return header, position + 8
        position += CLIENT_ID_POSITION
        if size >= 0:
            end = position + size
            if end > len(buffer):
                raise DecodeError("the client id runs over the end")
            header.client_id = buffer[position:end].tobytes().decode()
            position = end
        elif size == -1:
            header.client_id = None
        else:
            raise DecodeError(f"a client id of {size} bytes")
        # As `is_flexible`, without its call: every request comes here.
        if version >= _first_flexible(api_key, _NEVER):
            count = buffer[position]
            position += 1
            if count:
                position = skip_tags(buffer, position, count)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"request header: {error}") from error
    return header, position


def encode_request_header(
    api_key: int, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """The header of a request that we send."""
    head = pack_request_head(api_key, version, correlation_id)
    header_version = request_header_version(api_key, version)
    if header_version == 0:
        return head
    content = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(content)
    tags = b"\0" if header_version == 2 else b""
    return head + struct.pack(">h", length) + content + tags
