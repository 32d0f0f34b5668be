"""Tokens for OAUTHBEARER: from a token endpoint, from a file, or unsecured ones.

Source: Kafka 3.9's OAuthBearerLoginCallbackHandler, HttpAccessTokenRetriever, FileTokenRetriever
and OAuthBearerUnsecuredLoginCallbackHandler; KIP-255, KIP-768.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from odradek.bounded_files import read_file, system_error_text
from odradek.bounded_parsing import parse_json
from odradek.tools.security.errors import SecurityError

ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
CONNECT_TIMEOUT: Final = "sasl.login.connect.timeout.ms"
TIMEOUT_MS: Final = 10_000
RESPONSE_BYTES_MAX: Final = 1 << 20
LIFETIME_S: Final = 3600
_STRING: Final = "unsecuredLoginStringClaim_"
_NUMBER: Final = "unsecuredLoginNumberClaim_"
_LIST: Final = "unsecuredLoginListClaim_"


class Token(NamedTuple):
    """An access token."""

    text: str
    expires_s: float
    """Seconds since the epoch."""

    def __repr__(self) -> str:
        return "Token(...)"


def token_source(configs: Mapping[str, str], options: Mapping[str, str]) -> Callable[[], Token]:
    """What gets a new token for each login; it raises SecurityError.

    options  of the login module
    raises   SecurityError
    """
    url = configs.get(ENDPOINT, "").strip()
    if url.startswith("file:"):
        return lambda: _from_file(url)
    if url:
        timeout = configs.get(CONNECT_TIMEOUT, "").strip()
        timeout_ms = int(timeout) if timeout.isdecimal() else TIMEOUT_MS
        for name in ("clientId", "clientSecret"):
            if name not in options:
                raise SecurityError(f"sasl.jaas.config: {name} is missing, for {ENDPOINT}")
        return lambda: _from_endpoint(url, options, timeout_ms)
    if not any(name.startswith("unsecuredLogin") for name in options):
        raise SecurityError(f"OAUTHBEARER needs {ENDPOINT}, or options of unsecured tokens")
    return lambda: _unsecured(options)


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
    from urllib.parse import unquote, urlsplit

    path = unquote(urlsplit(url).path)
    try:
        text = read_file(path, RESPONSE_BYTES_MAX).decode("ascii", errors="replace").strip()
    except OSError as error:
        raise SecurityError(f"{ENDPOINT}: {path}: {system_error_text(error)}") from error
    return Token(text, _expiry_s(text))


def _from_endpoint(url: str, options: Mapping[str, str], timeout_ms: int) -> Token:
    from urllib.error import HTTPError, URLError
    from urllib.parse import urlencode, urlsplit
    from urllib.request import Request, urlopen

    if urlsplit(url).scheme not in ("http", "https"):
        raise SecurityError(f"{ENDPOINT}: expected a URL of http, https or file")
    fields = {"grant_type": "client_credentials"}
    if "scope" in options:
        fields["scope"] = options["scope"]
    credentials = f"{options['clientId']}:{options['clientSecret']}".encode()
    request = Request(
        url,
        urlencode(fields).encode(),
        {
            "Accept": "application/json",
            "Authorization": "Basic " + base64.b64encode(credentials).decode(),
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    try:
        with urlopen(request, timeout=timeout_ms / 1000) as response:
            body = parse_json(response.read(RESPONSE_BYTES_MAX), bytes_max=RESPONSE_BYTES_MAX)
    except HTTPError as error:
        raise SecurityError(f"the token endpoint {url} responds with {error.code}") from None
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise SecurityError(f"the token endpoint {url} cannot be reached: {reason}") from None
    except ValueError:
        raise SecurityError(f"the token endpoint {url} sends no JSON") from None
    text = body.get("access_token") if isinstance(body, dict) else None
    if not isinstance(text, str) or not text:
        raise SecurityError(f"the token endpoint {url} sends no access_token")
    return Token(text, _expiry_s(text))


def _expiry_s(token: str) -> float:
    """The claim `exp` of a JWT; without one, an hour from now.  The broker verifies the token."""
    part = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        claims = parse_json(
            base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)), bytes_max=RESPONSE_BYTES_MAX
        )
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError):
        return time.time() + LIFETIME_S


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
        raise SecurityError(
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
