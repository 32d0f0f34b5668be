"""PLAIN and SCRAM against the vectors of their RFCs, and against messages that are not theirs."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable

import pytest

from odradek.broker.security.kafka_principal import KafkaPrincipal
from odradek.broker.security.sasl.mechanisms import (
    Credentials,
    MechanismContext,
    TokenCredential,
    make_mechanisms,
)
from odradek.broker.security.sasl.sasl_server import (
    Authenticated,
    Challenge,
    Mechanism,
    SaslAuthenticationError,
    SaslError,
    SaslServer,
    SaslStep,
)
from odradek.broker.security.sasl.scram import make as make_scram
from odradek.broker.settings.load import make_settings
from odradek.broker.settings.sasl import login_modules
from odradek.runtime import scram_credential
from odradek.runtime.scram_credential import (
    ScramCredential,
    credential_of,
    parse_credential,
    salted_password,
)
from tests.security.scram_client import ScramClient

SETTINGS = make_settings({"log.dirs": "data", "listeners": "PLAINTEXT://:0",
    "listener.name.plaintext.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.plaintext.plain.sasl.jaas.config":
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_alice="geheim" user_bjørn="p\\"ä,=" ;',
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config":
        "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    "listener.name.plaintext.scram-sha-512.sasl.jaas.config":
        "org.apache.kafka.common.security.scram.ScramLoginModule required;",
})  # fmt: skip
EXPIRES_MS = 5_000


def stored(mechanism: str, password: str, salt: bytes, iterations: int = 4096) -> ScramCredential:
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of(mechanism, salt, salted, iterations)


def of_user(mechanism: str, user: str) -> ScramCredential | None:
    users = {"user": ("pencil", 4096), "a,b=c": ("pencil", 4096), "weak": ("pencil", 4095)}
    if user not in users:
        return None
    password, iterations = users[user]
    return stored(mechanism, password, b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), iterations)


def of_token(mechanism: str, token_id: str, now_ms: int) -> TokenCredential | None:
    if token_id != "token" or now_ms >= EXPIRES_MS:
        return None
    return TokenCredential("owner", stored(mechanism, "hmac", b"salt"), EXPIRES_MS)


CREDENTIALS = Credentials(of_user, of_token)


def mechanisms(nonce: str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0") -> dict[str, Mechanism]:
    modules = login_modules(SETTINGS, "PLAINTEXT")
    return make_mechanisms(SETTINGS, "PLAINTEXT", modules, CREDENTIALS, lambda: nonce)


def step(server: SaslServer, response: bytes, now_ms: int = 0) -> SaslStep:
    evaluated = server.evaluate(response, now_ms)
    assert isinstance(evaluated, Challenge | Authenticated)
    return evaluated


def test_scram_sha_256_follows_rfc_7677() -> None:
    server = mechanisms()["SCRAM-SHA-256"]()
    assert step(server, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == Challenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert step(server, final) == Authenticated(
        KafkaPrincipal("User", "user"), b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )


def test_scram_sha_1_follows_rfc_5802(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scram_credential.HASHES, "SCRAM-SHA-1", "sha1")
    credential = stored("SCRAM-SHA-1", "pencil", b64decode("QSXCR+Q6sek8bf92"))
    module = login_modules(SETTINGS, "PLAINTEXT")["SCRAM-SHA-256"]
    context = MechanismContext(
        "SCRAM-SHA-1",
        "PLAINTEXT",
        SETTINGS,
        module,
        Credentials(lambda mechanism, user: credential, of_token),
        lambda: "3rfcNHYJY1ZVvWVs7j",
    )
    server = make_scram(context)()
    assert step(server, b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL") == Challenge(
        b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"
    )
    final = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    assert step(server, final).data == b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(
    ("name", "password", "extensions", "principal", "expires_ms"),
    [
        ("user", "pencil", "", KafkaPrincipal("User", "user"), None),
        ("a=2Cb=3Dc", "pencil", ",x=y", KafkaPrincipal("User", "a,b=c"), None),
        ("token", "hmac", ",tokenauth=true", KafkaPrincipal("User", "owner", True), EXPIRES_MS),
    ],
)
def test_scram_exchange_authenticates_the_user_or_the_owner_of_the_token(
    mechanism: str,
    name: str,
    password: str,
    extensions: str,
    principal: KafkaPrincipal,
    expires_ms: int | None,
) -> None:
    client = ScramClient(mechanism, password, name=name, extensions=extensions)
    server = mechanisms()[mechanism]()
    outcome = step(server, client.final(step(server, client.first()).data))
    assert isinstance(outcome, Authenticated)
    assert (outcome.principal, outcome.expires_ms) == (principal, expires_ms)


def test_scram_exchange_of_librdkafka_before_2_6_1_is_taken() -> None:
    client = ScramClient("SCRAM-SHA-512", "pencil", name="user", extensions="")
    server = mechanisms()["SCRAM-SHA-512"]()
    challenge = step(server, client.first()).data
    final = client.final(challenge, lambda bare: bare.replace("r=client", "r=clientclient"))
    assert isinstance(step(server, final), Authenticated)


@pytest.mark.parametrize(
    ("name", "password", "extensions", "change"),
    [
        ("user", "pencils", "", None),
        ("mallory", "pencil", "", None),
        ("user", "pencil", ",tokenauth=true", None),
        ("token", "hmac", "", None),
        # Only the end of the nonce, or more than it (CVE-2024-56128).
        ("user", "pencil", "", lambda bare: bare.replace("r=client", "r=x")),
        ("user", "pencil", "", lambda bare: bare.replace("r=client", "r=xclient")),
        ("user", "pencil", "", lambda bare: bare + "x"),
        # Another header than in the first message: a downgrade.
        ("user", "pencil", "", lambda bare: bare.replace("c=biws", "c=eSws")),
        ("user", "pencil", "", lambda bare: bare.replace("c=biws", "c=biw")),
        ("user", "pencil", "", lambda bare: bare.replace("c=", "d=")),
    ],
)
def test_scram_exchange_with_a_wrong_last_message_is_refused(
    name: str, password: str, extensions: str, change: Callable[[str], str] | None
) -> None:
    client = ScramClient("SCRAM-SHA-256", password, name=name, extensions=extensions)
    server = mechanisms()["SCRAM-SHA-256"]()
    challenge = step(server, client.first()).data
    final = client.final(challenge) if change is None else client.final(challenge, change)
    with pytest.raises(SaslError):
        server.evaluate(final, 0)


def test_expired_token_is_refused() -> None:
    client = ScramClient("SCRAM-SHA-256", "hmac", name="token", extensions=",tokenauth=true")
    server = mechanisms()["SCRAM-SHA-256"]()
    challenge = step(server, client.first(), EXPIRES_MS).data
    with pytest.raises(SaslError):
        server.evaluate(client.final(challenge), EXPIRES_MS)


def test_replayed_and_reflected_last_messages_are_refused() -> None:
    client = ScramClient("SCRAM-SHA-256", "pencil")
    server = mechanisms()["SCRAM-SHA-256"]()
    final = client.final(step(server, client.first()).data)
    outcome = step(server, final)
    other = mechanisms("other")["SCRAM-SHA-256"]()
    challenge = step(other, client.first()).data
    for reflected in (final, outcome.data, challenge):
        with pytest.raises(SaslError):
            other.evaluate(reflected, 0)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\0" * 100,
        b"n" * 524_288,
        "n,,n=bjørn,r=x".encode(),
        b"y,,n=user,r=x",
        b"p=tls-unique,,n=user,r=x",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"n,,n=us=er,r=x",
        b"n,,n=user,r=x,",
        b"n,,n=user,r=x\n",
        b"n,,r=x,n=user",
        b"n,,m=ext,n=user,r=x",
        b"n,,n=weak,r=x",
        b"r=a,s=YQ==,i=4096",
    ],
)
def test_scram_first_message_of_another_format_is_refused(message: bytes) -> None:
    with pytest.raises(SaslError):
        mechanisms()["SCRAM-SHA-256"]().evaluate(message, 0)


def test_scram_salt_of_an_unknown_user_does_not_change() -> None:
    mechanism = mechanisms()["SCRAM-SHA-256"]
    salts = {
        step(mechanism(), f"n,,n={name},r=x".encode()).data.split(b",")[1]
        for name in ("mallory", "mallory", "eve", "eve")
    }
    assert len(salts) == 2


def test_scram_of_another_authorization_id_is_refused() -> None:
    with pytest.raises(SaslAuthenticationError, match="different from username"):
        mechanisms()["SCRAM-SHA-256"]().evaluate(b"n,a=admin,n=user,r=x", 0)


@pytest.mark.parametrize(
    ("message", "name"),
    [("\0alice\0geheim", "alice"), ("alice\0alice\0geheim", "alice"), ('\0bjørn\0p"ä,=', "bjørn")],
)
def test_plain_message_authenticates(message: str, name: str) -> None:
    outcome = step(mechanisms()["PLAIN"](), message.encode())
    assert outcome == Authenticated(KafkaPrincipal("User", name))


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0mallory\0geheim", "Authentication failed: Invalid username or password"),
        (b"\0alice\0geheim\xff", "Authentication failed: Invalid username or password"),
        (b"\0\0geheim", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"bob\0alice\0geheim",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0geheim", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0geheim\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0" * 500_000, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_plain_message_is_refused_with_the_text_of_kafka(message: bytes, text: str) -> None:
    with pytest.raises(SaslAuthenticationError) as refused:
        mechanisms()["PLAIN"]().evaluate(message, 0)
    assert refused.value.message == text


def test_stored_credential_is_read_as_it_is_written() -> None:
    credential = stored("SCRAM-SHA-512", "pencil", b"salt", 5000)
    assert parse_credential(credential.text) == credential
    reordered = ",".join(reversed(credential.text.split(",")))
    assert parse_credential(reordered) == credential


@pytest.mark.parametrize(
    "text",
    ["", "salt=YQ==", "salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=many",
     "salt=Y,stored_key=YQ==,server_key=YQ==,iterations=4096",
     "salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=4096,more=1"],
)  # fmt: skip
def test_damaged_stored_credential_is_refused_without_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)scram|base64|padding|encoded|characters"):
        parse_credential(text)
