"""Clients that we did not write against TLS listeners: who gets in, and who does not."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.support.broker_process import BrokerProcess
from tests.support.certificates import PASSWORD, Authority, Certified
from tests.support.ports import free_port

with warnings.catch_warnings():
    # Its import calls a function that Python 3.11 deprecates and 3.13 does not.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as KafkaPythonPartition

pytestmark = pytest.mark.client

WAIT_S = 60.0
NAMES = (
    *("ONE_WAY", "REQUIRED", "REQUESTED", "EXPIRED", "FUTURE", "ELSEWHERE", "STORE", "JAVA"),
    "SASLED",
)


class Scene(NamedTuple):
    broker: BrokerProcess
    authority: Authority
    other: Authority
    ports: Mapping[str, int]

    def librdkafka(self, listener: str, certified: Certified | None = None) -> dict[str, Any]:
        """Settings of a client that trusts the authority."""
        settings: dict[str, Any] = {
            "bootstrap.servers": f"127.0.0.1:{self.ports[listener]}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority.trusted),
            "log_level": 0,
            "broker.address.family": "v4",
        }
        if certified is not None:
            settings["ssl.certificate.location"] = str(certified.certificate_file)
            settings["ssl.key.location"] = str(certified.key_file)
        return settings


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder / "certificates")
    other = Authority(folder / "other", "other")
    java = authority.issue("java", is_rsa=True)
    ports = {name: free_port() for name in NAMES}
    overrides = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.server().pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.trusted),
        "listener.name.required.ssl.client.auth": "required",
        "listener.name.requested.ssl.client.auth": "requested",
        "listener.name.sasled.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasled.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
        'PlainLoginModule required user_alice="open sesame";',
        "listener.name.store.ssl.client.auth": "required",
        "listener.name.store.ssl.keystore.type": "PKCS12",
        "listener.name.store.ssl.keystore.location": str(authority.server("stored").pkcs12()),
        "listener.name.store.ssl.keystore.password": PASSWORD,
        "listener.name.store.ssl.truststore.type": "JKS",
        "listener.name.store.ssl.truststore.location": str(authority.trusted_pkcs12()),
        "listener.name.store.ssl.truststore.password": PASSWORD,
        "listener.name.java.ssl.client.auth": "required",
        "listener.name.java.ssl.keystore.type": "JKS",
        "listener.name.java.ssl.keystore.location": str(java.java_key_store("of-key")),
        "listener.name.java.ssl.keystore.password": PASSWORD,
        "listener.name.java.ssl.key.password": "of-key",
        "listener.name.java.ssl.truststore.type": "JKS",
        "listener.name.java.ssl.truststore.location": str(authority.trusted_java_key_store()),
        "listener.name.java.ssl.truststore.password": PASSWORD,
    }
    for name, certified in (
        ("expired", authority.expired()),
        ("future", authority.not_yet_valid()),
        ("elsewhere", authority.wrong_host()),
    ):
        overrides[f"listener.name.{name}.ssl.keystore.location"] = str(certified.pem)
    broker = BrokerProcess(folder, overrides=overrides)
    listeners = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
    protocols = [f"{name}:{'SASL_SSL' if name == 'SASLED' else 'SSL'}" for name in NAMES]
    broker.overrides["listeners"] = ",".join([f"PLAINTEXT://{broker.address}", *listeners])
    broker.overrides["listener.security.protocol.map"] = ",".join(
        ["PLAINTEXT:PLAINTEXT", *protocols]
    )
    try:
        broker.start()
        yield Scene(broker, authority, other, ports)
    finally:
        broker.close()


def produced(settings: Mapping[str, Any], topic: str, values: list[bytes]) -> None:
    errors: list[object] = []
    producer = Producer({"linger.ms": 5, "message.max.bytes": 1_048_000, **settings})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    assert errors == [None] * len(values)


def consumed(settings: Mapping[str, Any], topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"group.id": "none", **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    while len(values) < count:
        batch = consumer.consume(count - len(values), WAIT_S)
        assert batch, "the consumer gets no more records"
        for message in batch:
            assert message.error() is None
            value = message.value()
            assert value is not None
            values.append(value)
    consumer.close()
    return values


@pytest.mark.parametrize("listener", ["ONE_WAY", "REQUIRED", "REQUESTED", "STORE", "JAVA"])
def test_librdkafka_reads_what_it_has_written(scene: Scene, listener: str) -> None:
    certified = None if listener == "ONE_WAY" else scene.authority.client()
    settings = scene.librdkafka(listener, certified)
    small = [b"%d" % number for number in range(3_000)]
    large = [os.urandom(size) for size in (16_383, 16_384, 16_385, 65_531, 65_541, 1_000_000)]
    topic = f"of-{listener.lower()}"
    # Batches of many records, and of one, below and above the bounds of buffers and records.
    produced(settings, topic, small)
    for value in large:
        produced({**settings, "linger.ms": 0}, topic, [value])
    produced({**settings, "batch.size": 900_000}, topic, small)
    assert consumed(settings, topic, 2 * len(small) + len(large)) == [*small, *large, *small]


def test_password_is_sent_over_tls(scene: Scene) -> None:
    settings = scene.librdkafka("SASLED") | {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "open sesame",
    }
    values = [os.urandom(size) for size in (1, 20_000, 500_000)]
    produced(settings, "of-alice", values)
    assert consumed(settings, "of-alice", 3) == values
    assert refusal(settings | {"sasl.password": "open"}).code() == KafkaError._AUTHENTICATION


def test_kafka_python_reads_what_it_has_written(scene: Scene) -> None:
    client = scene.authority.client("encrypted")
    settings: dict[str, Any] = {
        "bootstrap_servers": f"localhost:{scene.ports['REQUIRED']}",
        "security_protocol": "SSL",
        "ssl_cafile": str(scene.authority.trusted),
        "ssl_certfile": str(client.certificate_file),
        "ssl_keyfile": str(client.encrypted_pem()),
        "ssl_password": PASSWORD,
    }
    values = [os.urandom(size) for size in (1, 100, 40_000, 300_000)]
    producer: Any = KafkaProducer(**settings)
    for value in values:
        producer.send("of-kafka-python", value).get(WAIT_S)
    producer.close()
    consumer: Any = KafkaConsumer(**settings, consumer_timeout_ms=int(WAIT_S * 1000))
    partition = KafkaPythonPartition("of-kafka-python", 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    assert [next(consumer).value for _ in values] == values
    consumer.close()


def refusal(settings: Mapping[str, Any]) -> KafkaError:
    """The first error that the client reports."""
    errors: list[KafkaError] = []
    producer = Producer({**settings, "error_cb": errors.append})
    while not errors:
        producer.poll(1.0)
    # A producer whose connections fail ends only without work.
    producer.purge()
    return errors[0]


SSL_ERRORS = (KafkaError._SSL, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


@pytest.mark.parametrize("listener", ["EXPIRED", "FUTURE", "ELSEWHERE"])
def test_client_refuses_a_bad_certificate_of_the_server(scene: Scene, listener: str) -> None:
    # Its code is _SSL or _TRANSPORT.
    assert "certificate verify failed" in refusal(scene.librdkafka(listener)).str()
    # Nothing else is hurt.
    produced(scene.librdkafka("ONE_WAY"), "still", [b"v"])


@pytest.mark.parametrize("name", ["none", "expired", "future", "other", "usage"])
def test_server_refuses_a_bad_certificate_of_the_client(scene: Scene, name: str) -> None:
    authority = scene.authority
    certificates = {
        "none": None,
        "expired": authority.expired("late"),
        "future": authority.not_yet_valid("early"),
        "other": scene.other.client(),
        "usage": authority.wrong_usage(),
    }
    assert refusal(scene.librdkafka("REQUIRED", certificates[name])).code() in SSL_ERRORS
    scene.broker.process.wait_for_line(
        r"Failed authentication with 127\.0\.0\.1 on \w+ \(SSL handshake failed\)", timeout_s=WAIT_S
    )
    produced(scene.librdkafka("REQUIRED", authority.client()), "still", [b"v"])


def test_requested_certificate_may_be_missing_but_not_bad(scene: Scene) -> None:
    produced(scene.librdkafka("REQUESTED"), "still", [b"v"])
    assert refusal(scene.librdkafka("REQUESTED", scene.other.client())).code() in SSL_ERRORS


def test_plaintext_on_a_tls_port_and_tls_on_a_plaintext_port_are_closed(scene: Scene) -> None:
    process = scene.broker.process
    plain = {"bootstrap.servers": f"127.0.0.1:{scene.ports['ONE_WAY']}", "log_level": 0}
    assert refusal(plain).code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
    process.wait_for_line(
        "the client sent (a request of Kafka's protocol without TLS|HTTP)", timeout_s=WAIT_S
    )
    browser = http.client.HTTPConnection("127.0.0.1", scene.ports["ONE_WAY"], timeout=WAIT_S)
    browser.request("GET", "/")
    with pytest.raises((http.client.HTTPException, OSError)):
        browser.getresponse()
    browser.close()
    settings = scene.librdkafka("ONE_WAY") | {"bootstrap.servers": scene.broker.address}
    assert refusal(settings).code() in SSL_ERRORS
    process.wait_for_line(
        "this is a TLS handshake; the listener speaks plaintext", timeout_s=WAIT_S
    )
    produced(scene.librdkafka("ONE_WAY"), "still", [b"v"])


def test_session_is_resumed_with_the_same_certificate(scene: Scene) -> None:
    client = scene.authority.client()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(scene.authority.trusted)
    context.load_cert_chain(client.certificate_file, client.key_file)
    session = None
    reused = []
    request = b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff"  # ApiVersions 0
    for _ in range(3):
        with (
            socket.create_connection(("127.0.0.1", scene.ports["REQUIRED"]), WAIT_S) as connected,
            context.wrap_socket(connected, server_hostname="127.0.0.1", session=session) as tls,
        ):
            tls.sendall(request)
            assert len(tls.recv(4)) == 4
            reused.append(tls.session_reused)
            session = tls.session
    assert reused == [False, True, True]


def test_clients_are_served_while_others_stall_in_their_handshakes(scene: Scene) -> None:
    stalled = [
        socket.create_connection(("127.0.0.1", scene.ports["ONE_WAY"]), WAIT_S) for _ in range(200)
    ]
    for connected in stalled:
        connected.send(b"\x16\x03\x01\x02")
    produced(scene.librdkafka("ONE_WAY"), "still", [b"v"] * 100)
    for connected in stalled:
        connected.close()
