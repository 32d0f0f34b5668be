"""Compose files with SASL and TLS as public projects have them for other images of Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from odradek.testing import Security
from tests.compose.project import ComposeProject, compose_project, until
from tests.support.certificates import PASSWORD, Authority
from tests.support.ports import free_port

JAAS: Final = """\
KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required
    username="brokers" password="brokers-secret"
    user_brokers="brokers-secret" user_alice="alice-secret";
};
"""
USERS: Final = {"alice": "alice-secret"}
RECORDS: Final = 20


class SecuredShape(NamedTuple):
    """A file, and how its clients connect."""

    file: str
    security: Security
    has_client_certificate: bool = False

    def configs(self, secrets: Path) -> dict[str, str]:
        """Configs of librdkafka."""
        configs = self.security.confluent_config()
        if self.security.has_tls:
            del configs["ssl.ca.pem"]
            configs["ssl.ca.location"] = str(secrets / "ca.pem")
        if self.has_client_certificate:
            certified = str(secrets / "client.pem")
            configs["ssl.certificate.location"] = configs["ssl.key.location"] = certified
        return configs

    def stranger(self, secrets: Path) -> tuple[dict[str, str], str]:
        """(configs of a client that is not let in, its error)."""
        configs = self.configs(secrets)
        if self.security.has_sasl:
            return {**configs, "sasl.password": "wrong"}, "_AUTHENTICATION"
        del configs["ssl.certificate.location"], configs["ssl.key.location"]
        return configs, "_ALL_BROKERS_DOWN"


SHAPES: Final = (
    SecuredShape("bitnami_sasl_ssl", Security(USERS, protocol="SASL_SSL")),
    SecuredShape("bitnami_scram_zookeeper", Security(USERS, mechanism="SCRAM-SHA-256")),
    SecuredShape("confluent_sasl", Security(USERS, mechanism="PLAIN")),
    SecuredShape("apache_sasl_ssl", Security(USERS, mechanism="PLAIN", protocol="SASL_SSL")),
    SecuredShape("apache_ssl", Security(protocol="SSL"), has_client_certificate=True),
)


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the files of all shapes name, for every user of a container to read."""
    folder = tmp_path_factory.mktemp("secrets")
    authority = Authority(folder)
    server = authority.issue("broker", hosts=("localhost", "broker"))
    authority.client("client").pem.rename(folder / "client.pem")
    server.pem.rename(folder / "broker.pem")
    # keytool of Java 9 and later writes this format, whatever the name of the file.
    server.pkcs12().rename(folder / "broker.keystore.jks")
    authority.trusted_pkcs12().rename(folder / "broker.truststore.jks")
    texts = {
        "ca.pem": authority.trusted.read_text(),
        "kafka.truststore.pem": authority.trusted.read_text(),
        "kafka.keystore.pem": server.chain_text(),
        "kafka.keystore.key": server.key_text(),
        "keystore_creds": f"{PASSWORD}\n",
        "truststore_creds": PASSWORD,
        "kafka_server_jaas.conf": JAAS,
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    for path in (*folder.iterdir(), folder, *folder.parents[:2]):
        path.chmod(path.stat().st_mode | 0o555)
    return folder


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.file for shape in SHAPES])
def test_secured_file_for_another_image_runs_with_this_one(
    shape: SecuredShape, secrets: Path, tmp_path: Path
) -> None:
    port = str(free_port())
    name = f"odradek-{shape.file.replace('_', '-')}"
    given = {"PORT": port, "SECRETS": str(secrets)}
    file = f"tests/compose/shapes/{shape.file}.yml"
    with compose_project(name, file, given, tmp_path) as project:
        project.compose("up", "-d")
        configs: dict[str, Any] = {
            "bootstrap.servers": f"localhost:{port}",
            "log_level": 0,
            **shape.configs(secrets),
        }
        admin = AdminClient(configs)
        until(lambda: is_served(project, admin), "the broker lets its user in")
        write_and_read(configs)
        refused, error = shape.stranger(secrets)
        until_refused(refused, port, error)
        log = project.log("broker")
        assert "Traceback" not in log
        assert not [text for text in ("alice-secret", "brokers-secret", PASSWORD) if text in log]


def is_served(project: ComposeProject, admin: AdminClient) -> bool:
    assert project.inspect("broker")["State"]["Running"], project.log("broker")
    try:
        return len(admin.list_topics(timeout=1).brokers) == 1
    except KafkaException:
        return False


def write_and_read(configs: dict[str, Any]) -> None:
    """Records of a topic and a group, as one user."""
    producer = Producer({**configs, "acks": "all"})
    for number in range(RECORDS):
        producer.produce("orders", b"%d" % number)
    assert producer.flush(60) == 0
    consumer = Consumer({**configs, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    values: list[bytes | None] = []

    def are_all() -> bool:
        values.extend(message.value() for message in consumer.consume(RECORDS, timeout=1.0))
        return len(values) >= RECORDS

    until(are_all, "the consumer has all records")
    consumer.close()
    assert values == [b"%d" % number for number in range(RECORDS)]


def until_refused(configs: dict[str, str], port: str, name: str) -> None:
    """Until a client has the error."""
    errors: list[KafkaError] = []
    client = Producer(
        {
            "bootstrap.servers": f"localhost:{port}",
            "error_cb": errors.append,
            "log_level": 0,
            **configs,
        }
    )

    def has_error() -> bool:
        client.poll(0.1)
        return name in {error.name() for error in errors}

    until(has_error, f"a stranger gets {name}")
