"""Tokens for OAUTHBEARER: from a token endpoint, from a file, or unsecured ones.

Source: Kafka 3.9's OAuthBearerLoginCallbackHandler, HttpAccessTokenRetriever, FileTokenRetriever
and OAuthBearerUnsecuredLoginCallbackHandler; KIP-255, KIP-768.
"""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import isfinite, nan
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from odradek.bounded_files import read_file, system_error_text
from odradek.bounded_parsing import parse_json

ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
CONNECT_TIMEOUT: Final = "sasl.login.connect.timeout.ms"
READ_TIMEOUT: Final = "sasl.login.read.timeout.ms"
TRUST_STORE: Final = "ssl.truststore.location"
"""An option of the login module: the PEM file with the authorities of the endpoint."""
TIMEOUT_MS: Final = 10_000
OK: Final = 200
RESPONSE_BYTES_MAX: Final = 1 << 20
RESPONSE_MAX_S: Final = 60.0
"""For a whole response; the time-outs of the settings are those of each read."""
LIFETIME_S: Final = 3600
UNSECURED_LOGIN: Final = "unsecuredLogin"
"""What options of unsecured tokens begin with."""
_STRING: Final = "unsecuredLoginStringClaim_"
_NUMBER: Final = "unsecuredLoginNumberClaim_"
_LIST: Final = "unsecuredLoginListClaim_"


class OAuthTokenError(ValueError):
    """No token can be had; the text is one line without secrets."""


class Token(NamedTuple):
    """An access token."""

    text: str
    expires_s: float
    """Seconds since the epoch."""

    def __repr__(self) -> str:
        return "Token(...)"


def token_source(configs: Mapping[str, str], options: Mapping[str, str]) -> Callable[[], Token]:
    """What gets a new token for each login, in a thread; it raises OAuthTokenError.

    options  of the login module
    raises   OAuthTokenError
    """
    url = configs.get(ENDPOINT, "").strip()
    if url.startswith("file:"):
        return lambda: _from_file(url)
    if url:
        try:
            parts = urlsplit(url)
            is_served = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            is_served = False
        if not is_served:
            raise OAuthTokenError(f"{ENDPOINT}: expected a URL of http, https or file")
        if parts.username is not None or parts.password is not None:
            raise OAuthTokenError(f"{ENDPOINT}: a URL with a name and a password is not served")
        for name in ("clientId", "clientSecret"):
            if name not in options:
                raise OAuthTokenError(f"sasl.jaas.config: {name} is missing, for {ENDPOINT}")
        return lambda: _from_endpoint(url, options, configs)
    if not any(name.startswith(UNSECURED_LOGIN) for name in options):
        raise OAuthTokenError(f"OAUTHBEARER needs {ENDPOINT}, or options of unsecured tokens")
    return lambda: _unsecured(options)


def initial_response(token: Token, options: Mapping[str, str]) -> bytes:
    """The first message of a client (RFC 7628)."""
    pairs = "".join(f"{name}={value}\x01" for name, value in extensions(options).items())
    return f"n,,\x01auth=Bearer {token.text}\x01{pairs}\x01".encode()


def extensions(options: Mapping[str, str]) -> dict[str, str]:
    """SASL extensions that go with the token (KIP-342)."""
    for prefix in ("unsecuredLoginExtension_", "extension_"):
        named = {
            name.removeprefix(prefix): value
            for name, value in options.items()
            if name.startswith(prefix)
        }
        if named:
            return named
    return {}


def _from_file(url: str) -> Token:
    path = unquote(urlsplit(url).path)
    try:
        text = read_file(path, RESPONSE_BYTES_MAX).decode("ascii", errors="replace").strip()
    except OSError as error:
        raise OAuthTokenError(f"{ENDPOINT}: {path}: {system_error_text(error)}") from error
    return Token(text, _expiry_s(text))


def _from_endpoint(url: str, options: Mapping[str, str], configs: Mapping[str, str]) -> Token:
    """No redirection is followed: it would carry the secret elsewhere."""
    from contextlib import closing
    from http.client import HTTPConnection, HTTPException, HTTPSConnection
    from ssl import create_default_context
    from urllib.parse import urlencode, urlsplit

    parts = urlsplit(url)
    fields = {"grant_type": "client_credentials"}
    if "scope" in options:
        fields["scope"] = options["scope"]
    credentials = f"{options['clientId']}:{options['clientSecret']}".encode()
    headers = {
        "Accept": "application/json",
        "Authorization": "Basic " + base64.b64encode(credentials).decode(),
        "Content-Type": "application/x-www-form-urlencoded",
    }
    timeout_s = _timeout_ms(configs, CONNECT_TIMEOUT) / 1000
    try:
        if parts.scheme == "https":
            tls = create_default_context(cafile=options.get(TRUST_STORE))
            connection: HTTPConnection = HTTPSConnection(
                parts.netloc, timeout=timeout_s, context=tls
            )
        else:
            connection = HTTPConnection(parts.netloc, timeout=timeout_s)
        with closing(connection):
            connection.connect()
            assert connection.sock is not None, "it is connected"
            connection.sock.settimeout(_timeout_ms(configs, READ_TIMEOUT) / 1000)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            with _ended_after(connection.sock, RESPONSE_MAX_S):
                connection.request("POST", target, urlencode(fields), headers)
                response = connection.getresponse()
                text = response.read(RESPONSE_BYTES_MAX)
            if response.status != OK:
                raise OAuthTokenError(f"the token endpoint {url} responds with {response.status}")
    except (OSError, HTTPException, UnicodeError) as error:
        # UnicodeError: the host is not a name that DNS can have.
        raise OAuthTokenError(f"the token endpoint {url} cannot be reached: {error}") from None
    try:
        body = parse_json(text, bytes_max=RESPONSE_BYTES_MAX)
    except ValueError:
        raise OAuthTokenError(f"the token endpoint {url} sends no JSON") from None
    token = body.get("access_token") if isinstance(body, dict) else None
    if not isinstance(token, str) or not token:
        raise OAuthTokenError(f"the token endpoint {url} sends no access_token")
    return Token(token, _expiry_s(token))


@contextmanager
def _ended_after(connected: socket.socket, seconds: float) -> Iterator[None]:
    """Within, the connection ends after a time, whatever arrives on it."""
    from threading import Timer

    def end() -> None:
        with suppress(OSError):
            # That of TLS changes what a read in the other thread uses.
            socket.socket.shutdown(connected, socket.SHUT_RDWR)

    timer = Timer(seconds, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _timeout_ms(configs: Mapping[str, str], name: str) -> int:
    text = configs.get(name, "").strip()
    return int(text) if text.isdecimal() and int(text) else TIMEOUT_MS


def _expiry_s(token: str) -> float:
    """The claim `exp` of a JWT; without one, an hour from now.  The broker verifies the token."""
    part = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        claims = parse_json(
            base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)), bytes_max=RESPONSE_BYTES_MAX
        )
        expiry_s = float(claims["exp"])
    except (ValueError, KeyError, TypeError, OverflowError):
        expiry_s = nan
    return expiry_s if isfinite(expiry_s) else time.time() + LIFETIME_S


def _unsecured(options: Mapping[str, str]) -> Token:
    # Whole milliseconds: a broker compares with its own, which must not be earlier.
    now = time.time_ns() // 1_000_000 / 1000
    try:
        lifetime_s = int(options.get("unsecuredLoginLifetimeSeconds", LIFETIME_S))
        numbers = {
            name.removeprefix(_NUMBER): float(value)
            for name, value in options.items()
            if name.startswith(_NUMBER)
        }
    except ValueError:
        raise OAuthTokenError(
            "sasl.jaas.config: a number of an unsecured token cannot be parsed"
        ) from None
    claims: dict[str, object] = {"iat": now, "exp": now + lifetime_s, **numbers}
    for name, value in options.items():
        if name.startswith(_STRING):
            claims[name.removeprefix(_STRING)] = value
        elif name.startswith(_LIST) and value:
            claims[name.removeprefix(_LIST)] = value[1:].split(value[0])
    parts = [_encoded({"alg": "none"}), _encoded(claims), ""]
    return Token(".".join(parts), now + lifetime_s)


def _encoded(value: Mapping[str, object]) -> str:
    text = json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")
