"""The SASL listeners of a node, and how it authenticates to other brokers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.node.start_error import StartError
from odradek.broker.security.sasl.scram_users import ScramUsers
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.listeners import SASL_PROTOCOLS
from odradek.runtime.randomness import Randomness

if TYPE_CHECKING:
    from odradek.broker.security.sasl.authenticator import SaslListener
    from odradek.broker.security.sasl.sasl_client import BrokerLogin
    from odradek.broker.security.tokens.delegation_tokens import DelegationTokens

NONCE_BOUND = 1 << 130


def build_sasl_listeners(
    settings: BrokerSettings, users: ScramUsers, tokens: DelegationTokens | None, rng: Randomness
) -> dict[str, SaslListener]:
    """What the listeners whose clients authenticate share with their connections, by name."""
    names = [
        listener.name for listener in settings.listeners if listener.protocol in SASL_PROTOCOLS
    ]
    if not names:
        return {}
    # Imported only where clients authenticate.
    from odradek.broker.security.sasl.authenticator import SaslListener
    from odradek.broker.security.sasl.mechanisms import Credentials, make_mechanisms
    from odradek.broker.settings.sasl import login_modules

    credentials = Credentials(
        of_user=users.credential,
        of_token=(lambda mechanism, token_id, now_ms: None)
        if tokens is None
        else tokens.credential,
    )
    listeners = {}
    for name in names:
        modules = login_modules(settings, name)
        mechanisms = make_mechanisms(settings, name, modules, credentials, nonces(rng))
        listeners[name] = SaslListener(
            mechanisms=mechanisms,
            reauthentication_ms={
                mechanism: _reauthentication_ms(settings, name, mechanism)
                for mechanism in mechanisms
            },
            receive_bytes_max=settings.sasl_server_max_receive_size,
            failure_delay_ms=settings.connection_failed_authentication_delay_ms,
        )
    return listeners


def build_login(
    settings: BrokerSettings, listener_name: str, rng: Randomness
) -> BrokerLogin | None:
    """How this broker authenticates to that listener of others; None: it does not have to."""
    protocols = {listener.name: listener.protocol for listener in settings.listeners}
    if protocols.get(listener_name) not in SASL_PROTOCOLS:
        return None
    # Imported only where brokers authenticate.
    from odradek.broker.security.sasl.sasl_client import make_login
    from odradek.broker.settings.sasl import inter_broker_mechanism, login_modules, token_endpoint
    from odradek.runtime.oauth_tokens import OAuthTokenError

    mechanism = inter_broker_mechanism(settings)
    module = login_modules(settings, listener_name)[mechanism]
    endpoint = token_endpoint(settings, listener_name, mechanism)
    try:
        return make_login(mechanism, module, nonces(rng), endpoint, time.time)
    except OAuthTokenError as error:
        raise StartError(f"listener {listener_name}: {error}") from None


def _reauthentication_ms(settings: BrokerSettings, listener_name: str, mechanism: str) -> int:
    value = settings.of_mechanism(listener_name, mechanism, "connections.max.reauth.ms")
    assert isinstance(value, int), "its type says so"
    return value


def nonces(rng: Randomness) -> Callable[[], str]:
    """Makes nonces of SCRAM."""
    return lambda: f"{rng.below(NONCE_BOUND):x}"
