"""How this broker authenticates: its exchanges with our server, and with servers that lie."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable

import pytest

from odradek.broker.security.kafka_principal import USER, KafkaPrincipal
from odradek.broker.security.sasl.mechanisms import Credentials, make_mechanisms
from odradek.broker.security.sasl.sasl_client import make_login
from odradek.broker.security.sasl.sasl_server import Authenticated, Challenge, SaslError
from odradek.broker.settings.sasl import LOGIN_MODULES, login_modules
from odradek.runtime.jaas import LoginModule
from odradek.runtime.scram_credential import credential_of, salted_password
from tests.security.test_sasl_mechanisms import SETTINGS

NAME = "a,b=c"
NO_CHANGE: Callable[[bytes], bytes] = bytes


def outcome(
    mechanism: str, password: str, change: Callable[[bytes], bytes] = NO_CHANGE
) -> KafkaPrincipal | None:
    """Log in twice with our server, whose responses `change` alters; the second outcome."""
    salted = salted_password(mechanism, "right", b"salt", 4096)
    credential = credential_of(mechanism, b"salt", salted, 4096)
    credentials = Credentials(lambda kind, user: credential, lambda kind, token, now_ms: None)
    modules = login_modules(SETTINGS, "PLAINTEXT")
    served = make_mechanisms(SETTINGS, "PLAINTEXT", modules, credentials, lambda: "server")
    options = {"username": NAME, "password": password}
    login = make_login(
        mechanism, LoginModule(LOGIN_MODULES[mechanism], options), lambda: "client", {}, float
    )
    principals: list[KafkaPrincipal] = []

    async def log_in() -> None:
        server = served[mechanism]()

        async def ask(message: bytes) -> bytes:
            step = server.evaluate(message, 0)
            assert isinstance(step, Challenge | Authenticated)
            if isinstance(step, Authenticated):
                principals.append(step.principal)
            return change(step.data)

        await login.log_in(ask, asyncio.to_thread)

    asyncio.run(log_in())
    asyncio.run(log_in())
    return principals[1]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_login_is_that_of_the_user(mechanism: str) -> None:
    assert outcome(mechanism, "right") == KafkaPrincipal(USER, NAME)
    with pytest.raises(SaslError):
        outcome(mechanism, "wrong")


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"v=", b"v=AA"),
        lambda data: b"v=" + b64encode(b"guessed") if data.startswith(b"v=") else data,
        lambda data: b"" if data.startswith(b"v=") else data,
        lambda data: data.replace(b"i=4096", b"i=1"),
        lambda data: data.replace(b"i=4096", b"i=999999999"),
        lambda data: data.replace(b"r=client", b"r=other"),
        lambda data: data.replace(b"r=clientserver", b"r=client"),
        lambda data: data.replace(b"s=", b"s=*"),
        lambda data: data.replace(b"s=", b"s=A"),
        lambda data: b"",
    ],
)
def test_server_that_does_not_know_the_password_is_refused(
    change: Callable[[bytes], bytes],
) -> None:
    with pytest.raises(SaslError):
        outcome("SCRAM-SHA-256", "right", change)
