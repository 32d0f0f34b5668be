"""The SASL mechanisms of a listener, made from its settings.

Source: Kafka's SaslChannelBuilder, JaasContext.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, NamedTuple

from odradek.broker.security.sasl.sasl_server import Mechanism
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.runtime.jaas import LoginModule
from odradek.runtime.scram_credential import ScramCredential

MODULES: Final = {
    "PLAIN": "odradek.broker.security.sasl.plain",
    "SCRAM-SHA-256": "odradek.broker.security.sasl.scram",
    "SCRAM-SHA-512": "odradek.broker.security.sasl.scram",
    "OAUTHBEARER": "odradek.broker.security.sasl.oauthbearer",
}
"""What has the function `make` of each mechanism."""


class TokenCredential(NamedTuple):
    """A delegation token as the credential of a SCRAM exchange with `tokenauth=true`."""

    owner: str
    """The name of the principal that the client becomes."""
    credential: ScramCredential
    expires_ms: int
    """Wall time."""


class Credentials(NamedTuple):
    """What mechanisms look up at each exchange; both are called on the loop and return at once."""

    of_user: Callable[[str, str], ScramCredential | None]
    """(mechanism, user) -> the SCRAM credential."""
    of_token: Callable[[str, str, int], TokenCredential | None]
    """(mechanism, token id, wall time) -> the credential of a delegation token, unless expired."""


class MechanismContext(NamedTuple):
    """What a mechanism of a listener is made of."""

    mechanism: str
    listener_name: str
    settings: BrokerSettings
    """`settings.of_listener(listener_name, ...)` has the values of a listener, and
    `settings.of_mechanism(listener_name, mechanism, ...)` those of a mechanism of it."""
    login_module: LoginModule
    """Its class is the one that belongs to the mechanism; mechanisms read its options."""
    credentials: Credentials
    new_nonce: Callable[[], str]
    """Random printable characters without a comma, 130 bits."""


def make_mechanisms(
    settings: BrokerSettings,
    listener_name: str,
    login_modules: Mapping[str, LoginModule],
    credentials: Credentials,
    new_nonce: Callable[[], str],
) -> dict[str, Mechanism]:
    """The mechanisms of a listener by name.

    login_modules  by mechanism, see `settings.sasl.login_modules`
    raises         InvalidValueError of an option that a mechanism cannot use
    """
    mechanisms: dict[str, Mechanism] = {}
    for name, login_module in login_modules.items():
        context = MechanismContext(
            name, listener_name, settings, login_module, credentials, new_nonce
        )
        mechanisms[name] = import_module(MODULES[name]).make(context)
    return mechanisms
