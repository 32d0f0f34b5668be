"""What a connection of a SASL listener gets before and after authentication, as from Apache Kafka.

Each conversation of bare frames is held with our broker and with Apache Kafka 3.9.2.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.clients import kafka_python_client
from tests.security.scram_client import ScramClient
from tests.support.apache import apache_node
from tests.support.broker_process import odradek_broker
from tests.support.client_errors import LOGIN, wait_for_error
from tests.support.ports import free_port
from tests.support.wire import Closed, Wire, frame

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SESSION_MS = 100_000_000
"""connections.max.reauth.ms of PLAIN; SCRAM has no end of sessions."""
RECEIVE_BYTES_MAX = 10_000


def sasl_settings(plaintext: int, sasl: int) -> dict[str, str]:
    listeners = f"PLAINTEXT://127.0.0.1:{plaintext},SASL_PLAINTEXT://127.0.0.1:{sasl}"
    prefix = "listener.name.sasl_plaintext."
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{prefix}plain.sasl.jaas.config": f'{PLAIN_MODULE} user_alice="geheim" user_bob="b";',
        f"{prefix}scram-sha-256.sasl.jaas.config": SCRAM_MODULE,
        f"{prefix}scram-sha-512.sasl.jaas.config": SCRAM_MODULE,
        f"{prefix}plain.connections.max.reauth.ms": str(SESSION_MS),
        "connection.failed.authentication.delay.ms": "10",
        "sasl.server.max.receive.size": str(RECEIVE_BYTES_MAX),
    }


def add_users(bootstrap: str) -> None:
    admin: Any = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        information = ScramCredentialInfo(mechanism, 4096)
        upsertion = UserScramCredentialUpsertion("user", information, b"pencil")
        # A broker of Apache Kafka that has just started may leave the first one unanswered.
        for is_last in (False, False, True):
            (stored,) = admin.alter_user_scram_credentials([upsertion], request_timeout=20).values()
            try:
                stored.result(60)
                break
            except (KafkaException, TimeoutError):
                if is_last:
                    raise


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the SASL listener of our broker."""
    plaintext, sasl = free_port(), free_port()
    folder: Path = tmp_path_factory.mktemp("ours")
    with odradek_broker(folder, port=plaintext, overrides=sasl_settings(plaintext, sasl)):
        add_users(f"127.0.0.1:{plaintext}")
        yield f"127.0.0.1:{sasl}"


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of that of Apache Kafka."""
    plaintext, sasl = free_port(), free_port()
    folder: Path = tmp_path_factory.mktemp("judge")
    with apache_node(folder, overrides=sasl_settings(plaintext, sasl)):
        add_users(f"127.0.0.1:{plaintext}")
        yield f"127.0.0.1:{sasl}"


class Talk:
    """A conversation, and what came back."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.results: list[object] = []

    def call(self, request: Any, version: int) -> Any:
        response = self._wire.call(request, version)
        self.results.append(shown(response))
        return response

    def versions(self, version: int = 3) -> Talk:
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        self.call(request, version)
        return self

    def handshake(self, mechanism: str, version: int = 1) -> Talk:
        self.call(SaslHandshakeRequest(mechanism=mechanism), version)
        return self

    def token(self, token: bytes, version: int = 2) -> bytes:
        challenge: bytes = self.call(SaslAuthenticateRequest(auth_bytes=token), version).auth_bytes
        return bytes(challenge)

    def bare_token(self, token: bytes) -> bytes:
        self._wire.send_bytes(frame(token))
        received = self._wire.receive_frame()
        self.results.append("" if received == b"" else "a token")
        return received

    def bytes(self, content: bytes) -> Talk:
        """Send anything; the connection should end."""
        self._wire.send_bytes(content)
        self._wire.receive_frame()
        self.results.append("a response")
        return self

    def metadata(self) -> Talk:
        self.call(MetadataRequest(topics=[]), 1)
        return self

    def scram(
        self,
        password: str = "pencil",
        *,
        name: str = "user",
        mechanism: str = "SCRAM-SHA-256",
        change: Callable[[str], str] = lambda bare: bare,
        extensions: str = "",
    ) -> Talk:
        client = ScramClient(mechanism, password, name=name, extensions=extensions)
        self.handshake(mechanism)
        challenge = self.token(client.first())
        self.token(client.final(challenge, change))
        return self


def shown(response: Any) -> object:
    name = type(response).__name__
    if name == "SaslHandshakeResponse":
        return name, response.error_code, sorted(response.mechanisms)
    if name == "SaslAuthenticateResponse":
        is_signature = bytes(response.auth_bytes[:2]) in (b"v=", b"r=")
        token = bytes(response.auth_bytes[:2] if is_signature else response.auth_bytes)
        return (
            *(name, response.error_code, response.error_message, token),
            getattr(response, "session_lifetime_ms", None),
        )
    return name, getattr(response, "error_code", None)


def plain(talk: Talk, *tokens: bytes, handshake: int = 1, version: int = 2) -> Talk:
    talk.handshake("PLAIN", handshake)
    for token in tokens:
        talk.token(token, version)
    return talk


GOOD = b"\0alice\0geheim"
TOO_LARGE = struct.pack(">i", RECEIVE_BYTES_MAX + 1)


def everything(talk: Talk) -> Talk:
    talk.versions()
    plain(talk, GOOD)
    talk.metadata()
    talk.versions()
    return talk


def bare_plain(talk: Talk, token: bytes) -> Talk:
    talk.handshake("PLAIN", 0)
    talk.bare_token(token)
    talk.metadata()
    return talk


def bare_scram(talk: Talk, password: str) -> Talk:
    client = ScramClient("SCRAM-SHA-512", password)
    talk.handshake("SCRAM-SHA-512", 0)
    talk.bare_token(client.final(talk.bare_token(client.first())))
    talk.metadata()
    return talk


def again(talk: Talk, mechanism: str, token: bytes) -> Talk:
    """A second authentication of the connection."""
    plain(talk, GOOD)
    talk.handshake(mechanism)
    talk.token(token)
    talk.metadata()
    return talk


def twice_at_once(talk: Talk) -> Talk:
    """A third authentication within the second after the second one."""
    again(talk, "PLAIN", GOOD)
    talk.handshake("PLAIN")
    talk.metadata()
    return talk


def scram_then(talk: Talk, step: Callable[[Talk], object]) -> Talk:
    talk.scram()
    step(talk)
    talk.metadata()
    return talk


CONVERSATIONS: dict[str, Callable[[Talk], object]] = {
    "plain with ApiVersions before and after": everything,
    "plain without ApiVersions": lambda talk: plain(talk, GOOD),
    "plain, ApiVersions 0": lambda talk: (talk.versions(0), plain(talk, GOOD)),
    "plain, SaslAuthenticate 0": lambda talk: plain(talk, GOOD, version=0),
    "plain, SaslAuthenticate 1": lambda talk: plain(talk, GOOD, version=1),
    "plain, authorization id is the user": lambda talk: plain(talk, b"alice\0alice\0geheim"),
    "plain, another authorization id": lambda talk: plain(talk, b"bob\0alice\0geheim"),
    "plain, wrong password": lambda talk: plain(talk, b"\0alice\0x"),
    "plain, unknown user": lambda talk: plain(talk, b"\0mallory\0geheim"),
    "plain, no user": lambda talk: plain(talk, b"\0\0geheim"),
    "plain, no password": lambda talk: plain(talk, b"\0alice\0"),
    "plain, empty token": lambda talk: plain(talk, b""),
    "plain, two tokens": lambda talk: plain(talk, b"alice\0geheim"),
    "plain, four tokens": lambda talk: plain(talk, b"\0alice\0geheim\0"),
    "plain, no UTF-8": lambda talk: plain(talk, b"\0alice\xff\0geheim"),
    "plain, large token": lambda talk: plain(talk, b"\0alice\0" + b"x" * 9_000),
    "plain, too large token": lambda talk: plain(talk, b"\0alice\0" + b"x" * RECEIVE_BYTES_MAX),
    "plain, a token after the last": lambda talk: plain(talk, GOOD, GOOD),
    "plain, a token after a refusal": lambda talk: plain(talk, b"\0alice\0x", GOOD),
    "plain, bare": lambda talk: bare_plain(talk, GOOD),
    "plain, bare, wrong password": lambda talk: bare_plain(talk, b"\0alice\0x"),
    "plain, bare, empty": lambda talk: bare_plain(talk, b""),
    "scram-sha-256": lambda talk: talk.scram(),
    "scram-sha-512": lambda talk: talk.scram(mechanism="SCRAM-SHA-512"),
    "scram with an unknown extension": lambda talk: talk.scram(extensions=",x=y"),
    "scram, wrong password": lambda talk: talk.scram("x"),
    "scram-sha-512, wrong password": lambda talk: talk.scram("x", mechanism="SCRAM-SHA-512"),
    "scram, only the end of the nonce": lambda talk: talk.scram(
        change=lambda bare: bare.replace("r=client", "r=x")
    ),
    "scram, bare": lambda talk: bare_scram(talk, "pencil"),
    "scram, bare, wrong password": lambda talk: bare_scram(talk, "x"),
    "scram, no first message": lambda talk: (
        talk.handshake("SCRAM-SHA-256"),
        talk.token(b"c=biws,r=x,p=eA=="),
    ),
    "scram, channel binding": lambda talk: (
        talk.handshake("SCRAM-SHA-256"),
        talk.token(b"p=tls-unique,,n=user,r=x"),
    ),
    "scram, a token of plain": lambda talk: (talk.handshake("SCRAM-SHA-256"), talk.token(GOOD)),
    "plain, a token of scram": lambda talk: plain(talk, b"n,,n=user,r=x"),
    "unknown mechanism": lambda talk: talk.handshake("NOPE"),
    "mechanism in small letters": lambda talk: talk.handshake("plain"),
    "no mechanism": lambda talk: talk.handshake(""),
    "Kerberos": lambda talk: talk.handshake("GSSAPI"),
    "unknown mechanism, handshake 0": lambda talk: talk.handshake("NOPE", 0),
    "known after unknown mechanism": lambda talk: (talk.handshake("NOPE"), talk.handshake("PLAIN")),
    "handshake of another version": lambda talk: talk.bytes(
        frame(struct.pack(">hhih", 17, 2, 1, -1) + b"\0\x05PLAIN")
    ),
    "ApiVersions twice": lambda talk: (talk.versions(), talk.versions()),
    "ApiVersions of a version to come": lambda talk: talk.bytes(
        frame(struct.pack(">hhih", 18, 99, 1, -1))
    ),
    "ApiVersions after the handshake fails": lambda talk: (talk.handshake("NOPE"), talk.versions()),
    "Metadata first": lambda talk: talk.metadata(),
    "Metadata after ApiVersions": lambda talk: (talk.versions(), talk.metadata()),
    "token without handshake": lambda talk: talk.token(GOOD),
    "Produce first": lambda talk: talk.bytes(frame(struct.pack(">hhih", 0, 9, 1, -1) + b"\0" * 20)),
    "LeaderAndIsr first": lambda talk: talk.bytes(frame(struct.pack(">hhih", 4, 0, 1, -1))),
    "unknown API": lambda talk: talk.bytes(frame(struct.pack(">hhih", 9_999, 0, 1, -1))),
    "a header that is cut": lambda talk: talk.bytes(frame(b"\0\x12")),
    "an empty frame": lambda talk: talk.bytes(frame(b"")),
    "a negative size": lambda talk: talk.bytes(struct.pack(">i", -1)),
    "the largest size": lambda talk: talk.bytes(struct.pack(">i", 2**31 - 1)),
    "a size above the bound": lambda talk: talk.bytes(TOO_LARGE),
    "HTTP": lambda talk: talk.bytes(b"GET / HTTP/1.1\r\n\r\n"),
    "again": lambda talk: again(talk, "PLAIN", GOOD),
    "again, another principal": lambda talk: again(talk, "PLAIN", b"\0bob\0b"),
    "again, wrong password": lambda talk: again(talk, "PLAIN", b"\0alice\0x"),
    "again, another mechanism": lambda talk: again(talk, "SCRAM-SHA-256", b"n,,n=user,r=x"),
    "again, twice within a second": twice_at_once,
    "again without a session": lambda talk: scram_then(
        talk, lambda talk: talk.handshake("SCRAM-SHA-256")
    ),
    "token without a session": lambda talk: scram_then(talk, lambda talk: talk.token(GOOD)),
}


def results(address: str, converse: Callable[[Talk], object]) -> list[object]:
    with Wire(address) as wire:
        talk = Talk(wire)
        try:
            converse(talk)
        except Closed:
            talk.results.append("closed")
        return talk.results


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversation_has_the_results_of_apache_kafka(ours: str, judge: str, name: str) -> None:
    converse = CONVERSATIONS[name]
    got = results(ours, converse)
    assert got
    assert got == results(judge, converse)


def test_unknown_user_of_scram_gets_the_results_of_a_wrong_password(ours: str) -> None:
    unknown = results(ours, lambda talk: talk.scram(name="mallory"))
    assert unknown == results(ours, lambda talk: talk.scram("wrong"))
    assert "invalid credentials" in str(unknown[-1])


@pytest.mark.parametrize("request_bytes", [
    struct.pack(">hhih", 3, 1, 1, -1) + bytes(4),
    struct.pack(">hhih", 18, 0, 1, -1),
    struct.pack(">hhih", 17, 1, 1, -1) + b"\0\x05PLAIN",
    struct.pack(">hhih", 6, 0, 1, -1),
])  # fmt: skip
def test_other_request_in_the_middle_of_the_exchange_closes(
    ours: str, request_bytes: bytes
) -> None:
    def converse(talk: Talk) -> None:
        talk.handshake("SCRAM-SHA-256")
        talk.token(b"n,,n=user,r=x")
        talk.bytes(frame(request_bytes))

    assert results(ours, converse)[2:] == ["closed"]


def test_authentication_in_pieces_of_one_byte_and_all_at_once(ours: str) -> None:
    handshake = frame(struct.pack(">hhih", 17, 1, 1, -1) + b"\0\x05PLAIN")
    token = frame(struct.pack(">hhihi", 36, 0, 2, -1, len(GOOD)) + GOOD)
    metadata = frame(struct.pack(">hhih", 3, 1, 3, -1) + bytes(4))
    content = handshake + token + metadata
    for pieces in ([content], [content[at : at + 1] for at in range(len(content))]):
        with Wire(ours) as wire:
            for piece in pieces:
                wire.send_bytes(piece)
            correlation_ids = [wire.receive_frame()[:4] for _ in range(3)]
        assert [struct.unpack(">i", each)[0] for each in correlation_ids] == [1, 2, 3]


def test_frame_above_the_bound_of_authentication_is_taken_after_it(ours: str) -> None:
    with Wire(ours) as wire:
        talk = Talk(wire)
        plain(talk, GOOD)
        topics = [MetadataRequestTopic(name=f"absent-{'x' * 100}-{n}") for n in range(200)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = wire.call(request, 4)
    assert len(response.topics) == 200


def library_settings(mechanism: str, user: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


CREDENTIALS = [
    ("PLAIN", "alice", "geheim"),
    ("SCRAM-SHA-256", "user", "pencil"),
    ("SCRAM-SHA-512", "user", "pencil"),
]


@pytest.mark.parametrize(("mechanism", "user", "password"), CREDENTIALS)
def test_kcat_of_an_earlier_librdkafka_logs_in(
    ours: str, mechanism: str, user: str, password: str
) -> None:
    settings = library_settings(mechanism, user, password)
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    command = ["kcat", "-L", "-b", ours, *options]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, "1 brokers" in result.stdout) == (0, True), result.stderr


@pytest.mark.parametrize(("mechanism", "user", "password"), CREDENTIALS)
def test_librdkafka_logs_in_and_is_refused(
    ours: str, mechanism: str, user: str, password: str
) -> None:
    settings = library_settings(mechanism, user, password)
    delivered: list[tuple[Any, Any]] = []
    producer = Producer({"bootstrap.servers": ours, **settings})
    producer.produce("by-librdkafka", b"x", callback=lambda *report: delivered.append(report))
    assert producer.flush(30) == 0
    assert [error for error, _ in delivered] == [None]
    for wrong in ((user, "wrong"), ("mallory", password)):
        settings = library_settings(mechanism, *wrong)
        errors: list[KafkaError] = []
        options: dict[str, Any] = {"error_cb": errors.append, **settings}
        admin = AdminClient({"bootstrap.servers": ours, **options})
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=1)
        wait_for_error(admin, errors, LOGIN)


@pytest.mark.parametrize(("mechanism", "user", "password"), CREDENTIALS)
def test_kafka_python_logs_in_and_is_refused(
    ours: str, mechanism: str, user: str, password: str
) -> None:
    settings = {
        "bootstrap_servers": ours,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
    }
    producers: Any = kafka_python_client
    producer: Any = producers.KafkaProducer(sasl_plain_password=password, **settings)
    assert producer.send("by-kafka-python", b"x").get(30).offset >= 0
    producer.close()
    from kafka.errors import KafkaError as KafkaPythonError

    with pytest.raises(KafkaPythonError):
        producers.KafkaProducer(sasl_plain_password="wrong", bootstrap_timeout_ms=1_000, **settings)
