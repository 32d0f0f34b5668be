"""Checks the access tokens of OAUTHBEARER: signed ones (RFC 7515, RFC 7519), and unsecured ones.

A refusal says why to the log only: clients get a status, as in Kafka.  Nothing here reads a clock
or a file, and the key that a token names is passed in.
Differs from Kafka: keys of the JWKS that are secrets (HS256) are never used, as all who can read
the JWKS could sign with them; a token has at most `TOKEN_CHARACTERS_MAX`.
Source: KIP-255, KIP-768; Kafka's ValidatorAccessTokenValidator, ClaimValidationUtils,
OAuthBearerUnsecuredValidatorCallbackHandler, OAuthBearerValidationUtils; jose4j's JwtConsumer.
"""

from __future__ import annotations

import math
import re
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry, extract_compact, validate_compact

from odradek.bounded_parsing import UnreadableText, parse_json

SigningKey = RSAKey | ECKey | OKPKey

TOKEN_CHARACTERS_MAX: Final = 64 << 10
"""Some providers list hundreds of groups; checking so much takes 3 ms, a usual token 0.2 ms."""
KEY_TYPES: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
    "Ed25519": ("OKP", "Ed25519"),
}
"""The algorithms that are accepted: type of the key, and its curve."""
INVALID_TOKEN: Final = "invalid_token"
INSUFFICIENT_SCOPE: Final = "insufficient_scope"
MILLISECONDS: Final = 1000
_TIME_MAX: Final = 2**53
_SECTION: Final = re.compile(r"[A-Za-z0-9_-]+")


class InvalidTokenError(Exception):
    """A token is refused; the text has no part of it."""

    def __init__(self, reason: str, *, scope: str | None = None) -> None:
        """scope  what the token would need"""
        super().__init__(reason)
        self.status = INVALID_TOKEN if scope is None else INSUFFICIENT_SCOPE
        self.scope = scope


class ValidToken(NamedTuple):
    """What a token proves."""

    name: str
    """That of the principal."""
    expires_ms: int
    """Wall time."""


class SignedHeader(NamedTuple):
    """What a signed token says of its key."""

    algorithm: str
    key_id: str | None


class Expectations(NamedTuple):
    """The claims that a signed token must have."""

    issuer: str | None
    audiences: tuple[str, ...]
    """One of them; if there are none, a token that names an audience is refused, as in Kafka."""
    scope_claim: str
    subject_claim: str
    clock_skew_seconds: int


class UnsecuredOptions(NamedTuple):
    """Options `unsecuredValidator...` of the login module."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0


class _LargeTokens(JWSRegistry):
    """The bounds of a header and a payload, which were checked together."""

    max_header_length = max_payload_length = TOKEN_CHARACTERS_MAX


def read_header(token: str) -> SignedHeader:
    """The header of a signed token; its signature is not checked here.

    raises  InvalidTokenError
    """
    sections = token.split(".")
    if len(token) > TOKEN_CHARACTERS_MAX:
        raise InvalidTokenError(f"it has more than {TOKEN_CHARACTERS_MAX} characters")
    if len(sections) != 3 or not all(map(_SECTION.fullmatch, sections)):
        raise InvalidTokenError("it does not consist of a header, a payload and a signature")
    header = _object_of(sections[0], "the header")
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in KEY_TYPES:
        raise InvalidTokenError(f"the algorithm is not one of {', '.join(KEY_TYPES)}")
    if key_id is not None and not isinstance(key_id, str):
        raise InvalidTokenError("the id of the key is not a text")
    # Extensions that must be understood: there are none that this code understands.
    for name in ("crit", "b64", "zip", "enc"):
        if name in header:
            raise InvalidTokenError(f"the header has {name}, which is not supported")
    return SignedHeader(algorithm, key_id)


def check_signed(token: str, key: SigningKey, expected: Expectations, now_ms: int) -> ValidToken:
    """Check the signature of a token, then its claims.

    key      of the type that the algorithm in the header needs (`KEY_TYPES`)
    now_ms   wall time
    raises   InvalidTokenError
    cost     0.1 ms
    """
    algorithm = read_header(token).algorithm
    registry = _LargeTokens(algorithms=[algorithm], strict_check_header=False)
    try:
        signature = extract_compact(token.encode(), registry=registry)
        is_signed = validate_compact(signature, key, registry=registry)
    except (JoseError, ValueError, TypeError) as error:
        raise InvalidTokenError(f"the signature is not readable: {type(error).__name__}") from None
    if not is_signed:
        raise InvalidTokenError("the signature is not that of the key")
    claims = _claims_of(signature.payload)
    _check_audience(claims, expected.audiences)
    issuer = _text(claims, "iss")
    if expected.issuer is not None and issuer != expected.issuer:
        raise InvalidTokenError("the issuer is not the expected one")
    expires_s = _check_times(claims, expected.clock_skew_seconds, now_ms)
    _check_scopes(claims.get(expected.scope_claim))
    subject = (_text(claims, expected.subject_claim) or "").strip()
    if not subject:
        raise InvalidTokenError(f"the claim {expected.subject_claim} is missing or empty")
    return ValidToken(subject, expires_s * MILLISECONDS)


def check_unsecured(options: UnsecuredOptions, token: str, now_ms: int) -> ValidToken:
    """Check the claims of a token without a signature, which anybody can make.

    raises  InvalidTokenError
    """
    if len(token) > TOKEN_CHARACTERS_MAX:
        raise InvalidTokenError(f"it has more than {TOKEN_CHARACTERS_MAX} characters")
    sections = token.split(".")
    if len(sections) != 3 or not all(sections[:2]):
        raise InvalidTokenError("it does not consist of three sections")
    header, claims = _object_of(sections[0], "the header"), _object_of(sections[1], "the payload")
    if header.get("alg") != "none" or sections[2]:
        raise InvalidTokenError("it is signed, and only unsecured tokens are expected")
    principal = claims.get(options.principal_claim)
    if not isinstance(principal, str) or not principal.strip():
        raise InvalidTokenError(f"the claim {options.principal_claim} is missing or empty")
    issued_s, expires_s = _number(claims, "iat"), _number(claims, "exp")
    if expires_s is None:
        raise InvalidTokenError("the claim exp is missing")
    if issued_s is not None and MILLISECONDS * issued_s > now_ms + options.clock_skew_ms:
        raise InvalidTokenError("it was issued in the future")
    if now_ms - options.clock_skew_ms >= MILLISECONDS * expires_s:
        raise InvalidTokenError("it has expired")
    if issued_s is not None and expires_s <= issued_s:
        raise InvalidTokenError("it expires before it was issued")
    scopes = claims.get(options.scope_claim)
    present = [scopes] if isinstance(scopes, str) else scopes if isinstance(scopes, list) else []
    stripped = [str(scope).strip() for scope in present]
    if any(scope not in stripped for scope in options.required_scope):
        required = f"[{', '.join(options.required_scope)}]"
        raise InvalidTokenError("it lacks a required scope", scope=required)
    return ValidToken(principal, math.floor(expires_s * MILLISECONDS + 0.5))


def unsecured_options(options: Mapping[str, str]) -> UnsecuredOptions:
    """Read the options of a login module.

    raises  ValueError with the name of an option
    """

    def option(name: str, default: str) -> str:
        return options.get(f"unsecuredValidator{name}", "").strip() or default

    skew = option("AllowableClockSkewMs", "0")
    if not re.fullmatch(r"\+?[0-9]{1,9}", skew, re.ASCII):
        raise ValueError("unsecuredValidatorAllowableClockSkewMs must be a number of milliseconds")
    return UnsecuredOptions(
        option("PrincipalClaimName", "sub"),
        option("ScopeClaimName", "scope"),
        tuple(option("RequiredScope", "").split()),
        int(skew),
    )


def _object_of(section: str, what: str) -> dict[str, Any]:
    """The JSON object in a section, of either alphabet of Base64."""
    try:
        padded = section.rstrip("=").translate(_TO_URL_SAFE)
        if not padded or not _SECTION.fullmatch(padded):
            raise InvalidTokenError(f"{what} is not Base64")
        return _claims_of(urlsafe_b64decode(padded + "=" * (-len(padded) % 4)), what)
    except (Base64Error, ValueError):
        raise InvalidTokenError(f"{what} is not Base64") from None


_TO_URL_SAFE: Final = str.maketrans("+/", "-_")


def _claims_of(data: bytes, what: str = "the payload") -> dict[str, Any]:
    try:
        claims = parse_json(data)
    except UnreadableText:
        raise InvalidTokenError(f"{what} is not JSON") from None
    if not isinstance(claims, dict):
        raise InvalidTokenError(f"{what} is not a JSON object")
    return claims


def _check_audience(claims: Mapping[str, Any], expected: tuple[str, ...]) -> None:
    audiences = claims.get("aud")
    if isinstance(audiences, str):
        audiences = [audiences]
    if audiences is None:
        if expected:
            raise InvalidTokenError("the claim aud is missing")
        return
    if not isinstance(audiences, list) or not all(isinstance(name, str) for name in audiences):
        raise InvalidTokenError("the claim aud is not a text or a list of texts")
    if not any(name in expected for name in audiences):
        raise InvalidTokenError("the audience is not an expected one")


def _check_times(claims: Mapping[str, Any], skew_s: int, now_ms: int) -> int:
    """The time of the expiry, in whole seconds since 1970."""
    now_s = now_ms // MILLISECONDS
    expires_s, issued_s = _seconds(claims, "exp"), _seconds(claims, "iat")
    begins_s = _seconds(claims, "nbf")
    if expires_s is None or issued_s is None:
        raise InvalidTokenError("the claim exp or iat is missing")
    if now_s - skew_s >= expires_s:
        raise InvalidTokenError("it has expired")
    if expires_s < issued_s or (begins_s is not None and expires_s < begins_s):
        raise InvalidTokenError("it expires before it was issued, or before it is valid")
    if begins_s is not None and now_s + skew_s < begins_s:
        raise InvalidTokenError("it is not yet valid")
    if expires_s < 0 or issued_s < 0:
        raise InvalidTokenError("the claim exp or iat is negative")
    return expires_s


def _check_scopes(scopes: object) -> None:
    if isinstance(scopes, str):
        scopes = [scopes]
    if not isinstance(scopes, list):
        return
    present: dict[str, None] = {}
    for scope in scopes:
        stripped = scope.strip() if isinstance(scope, str) else ""
        if not stripped or stripped in present:
            raise InvalidTokenError("the claim with the scopes has an empty one, or one twice")
        present[stripped] = None


def _text(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidTokenError(f"the claim {name} is not a text")
    return value


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _TIME_MAX:
        raise InvalidTokenError(f"the claim {name} is not a time")
    return value


def _seconds(claims: Mapping[str, Any], name: str) -> int | None:
    value = _number(claims, name)
    return None if value is None else int(value)
