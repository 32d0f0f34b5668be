"""The keys that sign tokens (RFC 7517): fetched in a thread, kept, fetched again.

A login waits for them where there are none yet, where they are older than
sasl.oauthbearer.jwks.endpoint.refresh.ms, or where its token names a key that is not among them; of
many logins one fetches and the others wait for it.  After a failure the former keys are used, and
there is no other try before the backoff is over.  An unknown key is looked for once in
`UNKNOWN_KEY_INTERVAL_MS`, whatever its id: tokens with ids made up are not turned into requests to
the provider.
Differs from Kafka: a broker starts while the provider is away, and the first login with a new key
waits for it instead of being refused; redirections are not followed.
Source: KIP-768; Kafka's RefreshingHttpsJwks, VerificationKeyResolverFactory; jose4j's
VerificationJwkSelector.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from odradek.bounded_parsing import UnreadableText, parse_json
from odradek.broker.security.sasl.mechanisms import MechanismContext
from odradek.broker.security.sasl.oauthbearer_endpoint import (
    JWKS_BYTES_MAX,
    UnreadableKeysError,
    fetch_document,
)
from odradek.broker.security.sasl.oauthbearer_settings import (
    JWKS_URL,
    jwks_settings,
    number_of,
    prefixed_name,
    text_of,
    value_of,
)
from odradek.broker.security.sasl.oauthbearer_token import (
    KEY_TYPES,
    Expectations,
    InvalidTokenError,
    SignedHeader,
    SigningKey,
    ValidToken,
    check_signed,
    read_header,
)
from odradek.broker.settings.types import InvalidValueError
from odradek.runtime.pending import Pending
from odradek.runtime.work import Later, in_thread

KEYS_MAX: Final = 1_000
RSA_BITS_MIN: Final = 2048
BASE64_BITS: Final = 6
"""Each character has so many."""
UNKNOWN_KEY_INTERVAL_MS: Final = 10_000

logger = logging.getLogger("odradek.oauthbearer")


FetchKeys = Callable[[], Sequence[SigningKey]]
"""Called in a thread; raises UnreadableKeysError."""


class JsonWebKeys:
    """The keys of one provider."""

    def __init__(
        self, fetch: FetchKeys, *, refresh_ms: int, backoff_ms: int, backoff_max_ms: int
    ) -> None:
        self._fetch = fetch
        self._refresh_ms = refresh_ms
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms
        self._keys: Sequence[SigningKey] = ()
        self._is_loaded = False
        self._due_ms = 0
        """When the keys are fetched again."""
        self._failures = 0
        self._unknown_key_due_ms = 0
        """When a key that is not there may be looked for."""
        self._fetching: Pending[None] | None = None

    def load(self) -> None:
        """Fetch them here and now: at a start, from a file; the first login fetches them again.

        raises  UnreadableKeysError
        """
        self._on_keys(self._fetch(), now_ms=-self._refresh_ms)

    def find(self, header: SignedHeader, now_ms: int) -> SigningKey | Later[SigningKey]:
        """The key of a token, or a coroutine that fetches the keys first.

        raises  InvalidTokenError
        """
        if now_ms >= self._due_ms:
            return self._fetched(header, now_ms)
        key = select(self._keys, header)
        if key is not None:
            return key
        if self._fetching is not None or self._may_look_for(now_ms):
            return self._fetched(header, now_ms)
        raise InvalidTokenError("its key is not among those of the provider")

    def _may_look_for(self, now_ms: int) -> bool:
        """Whether keys are fetched for one that is not there, which is noted."""
        if now_ms < self._unknown_key_due_ms or self._failures:
            return False
        self._unknown_key_due_ms = now_ms + UNKNOWN_KEY_INTERVAL_MS
        return True

    async def _fetched(self, header: SignedHeader, now_ms: int) -> SigningKey:
        if self._fetching is None:
            await self._refresh(now_ms)
        else:
            await self._fetching
        key = select(self._keys, header)
        if key is None:
            names = "those of the provider" if self._is_loaded else "any: none was fetched yet"
            raise InvalidTokenError(f"its key is not among {names}")
        return key

    async def _refresh(self, now_ms: int) -> None:
        fetching = self._fetching = Pending()
        try:
            self._on_keys(await in_thread(self._fetch), now_ms)
        except UnreadableKeysError as error:
            backoff_ms = min(self._backoff_ms << min(self._failures, 20), self._backoff_max_ms)
            self._failures += 1
            self._due_ms = now_ms + max(backoff_ms, 1)
            logger.warning("the keys that sign tokens cannot be fetched: %s", error)
        finally:
            self._fetching = None
            fetching.resolve(None)

    def _on_keys(self, keys: Sequence[SigningKey], now_ms: int) -> None:
        self._keys = keys
        self._is_loaded = True
        self._failures = 0
        self._due_ms = now_ms + self._refresh_ms


class SignedTokens:
    """The tokens of one provider, as a listener expects them."""

    def __init__(self, keys: JsonWebKeys, expected: Expectations) -> None:
        self._keys = keys
        self._expected = expected

    def validate(self, token: str, now_ms: int) -> ValidToken | Later[ValidToken]:
        """Check a token; a coroutine when keys have to be fetched.

        raises  InvalidTokenError
        """
        key = self._keys.find(read_header(token), now_ms)
        if isinstance(key, RSAKey | ECKey | OKPKey):
            return check_signed(token, key, self._expected, now_ms)
        return self._when_fetched(token, key, now_ms)

    async def _when_fetched(self, token: str, key: Later[SigningKey], now_ms: int) -> ValidToken:
        return check_signed(token, await key, self._expected, now_ms)


def signed_tokens(context: MechanismContext) -> SignedTokens:
    """What a listener's settings ask for; keys of a file are read here.

    raises  InvalidValueError
    """
    settings = jwks_settings(context)
    issuer = text_of(context, "sasl.oauthbearer.expected.issuer")
    audiences = value_of(context, "sasl.oauthbearer.expected.audience")
    expected = Expectations(
        issuer,
        tuple(map(str, audiences)) if isinstance(audiences, tuple) else (),
        text_of(context, "sasl.oauthbearer.scope.claim.name") or "scope",
        text_of(context, "sasl.oauthbearer.sub.claim.name") or "sub",
        number_of(context, "sasl.oauthbearer.clock.skew.seconds"),
    )
    keys = JsonWebKeys(
        lambda: read_keys(fetch_document(settings)),
        refresh_ms=settings.refresh_ms,
        backoff_ms=settings.backoff_ms,
        backoff_max_ms=settings.backoff_max_ms,
    )
    if settings.url.startswith("file:"):
        try:
            keys.load()
        except UnreadableKeysError as error:
            name = prefixed_name(context, JWKS_URL)
            raise InvalidValueError(name, settings.url, str(error)) from None
    return SignedTokens(keys, expected)


def select(keys: Sequence[SigningKey], header: SignedHeader) -> SigningKey | None:
    """The first key of the type that a token's algorithm needs, with the id that it names."""
    key_type, curve = KEY_TYPES[header.algorithm]
    for key in keys:
        if key.key_type != key_type or (curve is not None and key.get("crv") != curve):
            continue
        if header.key_id is not None and key.get("kid") != header.key_id:
            continue
        if key.get("alg") not in (None, header.algorithm) or key.get("use") not in (None, "sig"):
            continue
        return key
    return None


def read_keys(document: bytes) -> list[SigningKey]:
    """The public keys of a JWKS that can check signatures; others are passed over.

    raises  UnreadableKeysError
    """
    try:
        entries = parse_json(document, bytes_max=JWKS_BYTES_MAX)
    except UnreadableText as error:
        raise UnreadableKeysError(f"not JSON: {error}") from None
    entries = entries.get("keys") if isinstance(entries, dict) else None
    if not isinstance(entries, list) or len(entries) > KEYS_MAX:
        raise UnreadableKeysError(f"not a JWKS of at most {KEYS_MAX} keys")
    keys: list[SigningKey] = []
    for entry in entries:
        if not isinstance(entry, dict) or _is_short(entry):
            continue
        try:
            key: Any = JWKRegistry.import_key(entry)
            # The first use makes it: now, in the thread.
            key.public_key  # noqa: B018
        except (JoseError, ValueError, TypeError, KeyError, AttributeError):
            continue
        if isinstance(key, RSAKey | ECKey | OKPKey):
            keys.append(key)
    return keys


def _is_short(entry: dict[str, Any]) -> bool:
    """Whether an RSA key can be broken; jose4j refuses its signatures, too."""
    modulus = entry.get("n")
    return entry.get("kty") == "RSA" and (
        not isinstance(modulus, str) or len(modulus) * BASE64_BITS < RSA_BITS_MIN
    )
