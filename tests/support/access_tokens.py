"""Access tokens, good and forged, and whether a broker accepts them: one table for two brokers."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from joserfc.jwk import ECKey, OctKey, RSAKey

from tests.support.token_provider import AUDIENCE, ISSUER, TokenProvider

MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
SETTINGS: Final[Mapping[str, str]] = {
    "sasl.jaas.config": f"{MODULE};",
    "sasl.server.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
    "OAuthBearerValidatorCallbackHandler",
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.expected.audience": f"other,{AUDIENCE}",
    "sasl.oauthbearer.clock.skew.seconds": "30",
}
"""Those of the mechanism of a listener; the URL of the keys is to be added."""
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


class TokenCase(NamedTuple):
    """A token, and the principal that it makes; None: it is refused."""

    name: str
    make: Callable[[TokenProvider], str]
    principal: str | None = None


def encoded(value: object) -> str:
    """A section of a token."""
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def unsecured(claims: Mapping[str, object], algorithm: str = "none") -> str:
    """A token without a signature."""
    return f"{encoded({'alg': algorithm})}.{encoded(claims)}."


def initial(token: str) -> bytes:
    """The first message of a client."""
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def _claims(**claims: object) -> Callable[[TokenProvider], str]:
    return lambda provider: provider.token(claims)


def _times(**offsets: int) -> Callable[[TokenProvider], str]:
    """Times relative to now, in seconds."""
    return lambda provider: provider.token(
        {name: int(time.time()) + offset for name, offset in offsets.items()}
    )


def _confused(provider: TokenProvider) -> str:
    """HS256 with the public key as the secret (CVE-2016-10555 and its like)."""
    pem = provider.keys["first"].as_pem(private=False)  # type: ignore[union-attr]
    header = encoded({"alg": "HS256", "kid": "first"})
    claims = provider.token().split(".")[1]
    # joserfc refuses to sign with such a key.
    signature = hmac.digest(pem, f"{header}.{claims}".encode(), hashlib.sha256)
    return f"{header}.{claims}.{urlsafe_b64encode(signature).decode().rstrip('=')}"


def _without_signature(provider: TokenProvider) -> str:
    header, claims, _ = provider.token().split(".")
    return f"{header}.{claims}."


def _changed_claims(provider: TokenProvider) -> str:
    header, _, signature = provider.token().split(".")
    return f"{header}.{provider.token({'sub': 'admin'}).split('.')[1]}.{signature}"


def _none(algorithm: str) -> Callable[[TokenProvider], str]:
    def make(provider: TokenProvider) -> str:
        claims = provider.token().split(".")[1]
        return f"{encoded({'alg': algorithm, 'kid': 'first'})}.{claims}."

    return make


def _embedded(provider: TokenProvider) -> str:
    """A token with the key of the forger in its header."""
    key = RSAKey.generate_key(2048)
    return provider.token({"sub": "admin"}, key=key, jwk=key.as_dict(private=False))


CASES: Final = (
    TokenCase("valid", lambda provider: provider.token(), "alice"),
    *(TokenCase(name, partial(TokenProvider.token, alg=name), "alice") for name in ALGORITHMS),
    TokenCase("no key id", lambda provider: provider.token(kid=None), "alice"),
    TokenCase("type in header", lambda provider: provider.token(typ="JWT"), "alice"),
    TokenCase("other subject", _claims(sub="bjørn, of=all"), "bjørn, of=all"),
    TokenCase("subject with spaces", _claims(sub="  carol "), "carol"),
    TokenCase("several audiences", _claims(aud=["x", "kafka"]), "alice"),
    TokenCase("scopes as list", _claims(scope=["read", "write"]), "alice"),
    TokenCase("no scope", _claims(scope=None), "alice"),
    TokenCase("expired within skew", _times(exp=-10, iat=-100), "alice"),
    TokenCase("not before within skew", _times(nbf=20), "alice"),
    TokenCase("issued in the future", _times(iat=300), "alice"),
    TokenCase("large", _claims(groups=["g" * 50] * 400), "alice"),
    TokenCase("expired", _times(exp=-31, iat=-100)),
    TokenCase("not yet valid", _times(nbf=40)),
    TokenCase("expires before issued", _times(exp=100, iat=200)),
    TokenCase("no expiry", _claims(exp=None)),
    TokenCase("no time of issue", _claims(iat=None)),
    TokenCase("expiry is a text", _claims(exp="soon")),
    TokenCase("no subject", _claims(sub=None)),
    TokenCase("empty subject", _claims(sub=" ")),
    TokenCase("subject is a number", _claims(sub=7)),
    TokenCase("other issuer", _claims(iss="https://other.example")),
    TokenCase("no issuer", _claims(iss=None)),
    TokenCase("other audience", _claims(aud="other-service")),
    TokenCase("no audience", _claims(aud=None)),
    TokenCase("scope twice", _claims(scope=["read", "read"])),
    TokenCase("empty scope", _claims(scope="")),
    TokenCase("unknown key id", lambda provider: provider.token(kid="unknown")),
    TokenCase("key id is a path", lambda provider: provider.token(kid="../../../../dev/null")),
    TokenCase("other key", lambda provider: provider.token(key=RSAKey.generate_key(2048))),
    TokenCase(
        "other type of key",
        lambda provider: provider.token(key=ECKey.generate_key("P-256"), alg="ES256"),
    ),
    TokenCase("public key as secret", _confused),
    TokenCase(
        "secret", lambda provider: provider.token(key=OctKey.import_key("s" * 64), alg="HS256")
    ),
    TokenCase("none", _none("none")),
    TokenCase("None", _none("None")),
    TokenCase("NONE", _none("NONE")),
    TokenCase("without signature", _without_signature),
    TokenCase("changed claims", _changed_claims),
    TokenCase("key in header", _embedded),
    TokenCase("two sections", lambda provider: provider.token().rpartition(".")[0]),
    TokenCase("four sections", lambda provider: provider.token() + ".abc"),
    TokenCase("five sections", lambda provider: provider.token() + ".abc.def"),
    TokenCase("no JSON", lambda _: "abc.def.ghi"),
    TokenCase("list", lambda _: f"{encoded([1])}.{encoded([1])}.abc"),
    TokenCase("nested deeply", lambda _: f"{encoded({'alg': 'RS256'})}.{'W1tb' * 9000}.abc"),
)
