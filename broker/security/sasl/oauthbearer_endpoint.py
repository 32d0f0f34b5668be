"""Fetches the JWKS of a provider, over HTTP or from a file; in a thread.

No redirection is followed: the operator has named this address, and a provider cannot name another.
"""

from __future__ import annotations

import time
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ssl import create_default_context
from typing import Final
from urllib.parse import unquote, urlsplit

from odradek.bounded_files import read_file
from odradek.broker.security.sasl.oauthbearer_settings import JwksSettings

JWKS_BYTES_MAX: Final = 1 << 20
CHUNK_BYTES: Final = 16 << 10
OK: Final = 200


class UnreadableKeysError(Exception):
    """The keys cannot be fetched or read."""


def fetch_document(settings: JwksSettings) -> bytes:
    """The JWKS.

    raises  UnreadableKeysError
    """
    parts = urlsplit(settings.url)
    try:
        if parts.scheme == "file":
            return read_file(unquote(parts.path), JWKS_BYTES_MAX)
        timeout_s = settings.connect_timeout_ms / 1000
        if parts.scheme == "https":
            tls = create_default_context(cafile=settings.certificates)
            connection: HTTPConnection = HTTPSConnection(
                parts.netloc, timeout=timeout_s, context=tls
            )
        else:
            connection = HTTPConnection(parts.netloc, timeout=timeout_s)
        with closing(connection):
            return _get(connection, parts.path, parts.query, settings.read_timeout_ms)
    except (OSError, HTTPException, ValueError) as error:
        raise UnreadableKeysError(f"{type(error).__name__} at {settings.url}: {error}") from error


def _get(connection: HTTPConnection, path: str, query: str, timeout_ms: int) -> bytes:
    """The body of a response, within a time for all of it."""
    connection.connect()
    end_s = time.monotonic() + timeout_ms / 1000
    assert connection.sock is not None, "it is connected"
    connection.sock.settimeout(timeout_ms / 1000)
    connection.request("GET", (path or "/") + (f"?{query}" if query else ""))
    response = connection.getresponse()
    if response.status != OK:
        raise UnreadableKeysError(f"status {response.status}")
    body = b""
    while chunk := response.read1(CHUNK_BYTES):
        body += chunk
        if len(body) > JWKS_BYTES_MAX:
            raise UnreadableKeysError(f"more than {JWKS_BYTES_MAX} bytes")
        if time.monotonic() > end_s:
            raise UnreadableKeysError(f"not received within {timeout_ms} ms")
    return body
