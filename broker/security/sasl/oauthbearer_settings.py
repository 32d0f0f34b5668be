"""The settings of OAUTHBEARER, which come from the settings file only.

Values that were changed over the wire are not read: one with a listener's prefix could name a URL
that this broker would then fetch (CVE-2023-25194, CVE-2025-27817).
Source: KIP-768; Kafka's ConfigurationUtils, JaasOptionsUtils.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import urlsplit

from odradek.broker.security.sasl.mechanisms import MechanismContext
from odradek.broker.settings.definitions import BROKER
from odradek.broker.settings.rules import Value
from odradek.broker.settings.sasl import ALLOWED_URLS
from odradek.broker.settings.types import InvalidValueError, parse_value

HANDLER_SETTING: Final = "sasl.server.callback.handler.class"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
SIGNED_HANDLERS: Final = (
    f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerValidatorCallbackHandler",
)
"""The class of newer releases, and that of older ones."""
UNSECURED_HANDLER: Final = (
    f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
TRUST_STORE: Final = "ssl.truststore.location"
SCHEMES: Final = ("http", "https", "file")


class JwksSettings(NamedTuple):
    """Where the keys are, and how often they are fetched."""

    url: str
    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int
    connect_timeout_ms: int
    read_timeout_ms: int
    certificates: str | None
    """The PEM file with the authorities that `url` may have its certificate from; None: those of
    the system."""


def prefixed_name(context: MechanismContext, name: str) -> str:
    """The setting with the prefix of the listener and the mechanism."""
    return f"listener.name.{context.listener_name.lower()}.{context.mechanism.lower()}.{name}"


def handler_of(context: MechanismContext) -> str | None:
    """The class that checks tokens."""
    text = context.settings.static.get(prefixed_name(context, HANDLER_SETTING))
    return None if text is None else text.strip()


def value_of(context: MechanismContext, name: str) -> Value:
    """The value of a setting in the file: for the mechanism of the listener, else the listener,
    else the broker.

    raises  InvalidValueError
    """
    static = context.settings.static
    prefix = f"listener.name.{context.listener_name.lower()}."
    for key in (prefixed_name(context, name), f"{prefix}{name}", name):
        if key in static:
            return parse_value(BROKER[name]._replace(name=key), static[key])
    return BROKER[name].default


def number_of(context: MechanismContext, name: str, default: int = 0) -> int:
    """A value that is a number."""
    value = value_of(context, name)
    return value if isinstance(value, int) else default


def text_of(context: MechanismContext, name: str) -> str | None:
    """A value that is a text; None if it is empty."""
    value = value_of(context, name)
    return (value.strip() or None) if isinstance(value, str) else None


def jwks_settings(context: MechanismContext) -> JwksSettings:
    """Read and check them.

    raises  InvalidValueError
    """
    key = prefixed_name(context, JWKS_URL)
    url = text_of(context, JWKS_URL)
    if url is None:
        raise InvalidValueError(key, "null", "The keys that sign tokens are needed")
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in SCHEMES and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not (parts.path if parts.scheme == "file" else parts.hostname):
        raise InvalidValueError(key, _without_user(url), "Expected a URL: http, https or file")
    if parts.username is not None or parts.password is not None:
        raise InvalidValueError(key, "[hidden]", "A URL with a name and a password is not served")
    allowed_urls = context.settings.static.get(ALLOWED_URLS)
    if allowed_urls is not None and url not in [item.strip() for item in allowed_urls.split(",")]:
        raise InvalidValueError(key, url, f"{ALLOWED_URLS} does not contain it")
    refresh_ms = number_of(context, "sasl.oauthbearer.jwks.endpoint.refresh.ms")
    if refresh_ms <= 0:
        name = prefixed_name(context, "sasl.oauthbearer.jwks.endpoint.refresh.ms")
        raise InvalidValueError(name, refresh_ms, "Value must be at least 1")
    return JwksSettings(
        url,
        refresh_ms,
        number_of(context, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        number_of(context, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
        number_of(context, "sasl.login.connect.timeout.ms", CONNECT_TIMEOUT_MS),
        number_of(context, "sasl.login.read.timeout.ms", READ_TIMEOUT_MS),
        _certificates(context),
    )


CONNECT_TIMEOUT_MS: Final = 5_000
READ_TIMEOUT_MS: Final = 10_000


def _without_user(url: str) -> str:
    return "[hidden]" if "@" in url else url


def _certificates(context: MechanismContext) -> str | None:
    options = context.login_module.options
    unserved = [
        name
        for name in options
        if name.startswith("ssl.") and name not in (TRUST_STORE, "ssl.truststore.type")
    ]
    if unserved:
        allowed = f"Only {TRUST_STORE} is served among the ssl options of the login module"
        raise InvalidValueError("sasl.jaas.config", unserved[0], allowed)
    if TRUST_STORE in options and options.get("ssl.truststore.type", "PEM").upper() != "PEM":
        allowed = "Only PEM is served as the type of the trust store of the login module"
        raise InvalidValueError("sasl.jaas.config", "ssl.truststore.type", allowed)
    return options.get(TRUST_STORE)
