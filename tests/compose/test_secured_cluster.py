"""docker-compose.secure.yml: three brokers with SASL_SSL and ACLs, as the file stands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from tests.compose.project import ComposeProject, compose_project, until
from tests.support.ports import free_port

BROKERS = ("broker-1", "broker-2", "broker-3")
SECRETS = "/etc/kafka/secrets"
INSIDE = "broker-1:29092"
TOPIC = "orders"


class SecuredCluster(NamedTuple):
    """The running project, and files of its clients on this machine."""

    project: ComposeProject
    outside: str
    folder: Path

    def configs(self, user: str) -> dict[str, str]:
        """Configs of librdkafka, as the file of the user has them, for the published ports."""
        text = self.project.execute("broker-1", "cat", f"{SECRETS}/{user}.conf")
        configs = dict(line.split("=", 1) for line in text.splitlines())
        authority = self.folder / "ca.pem"
        authority.write_text(self.project.execute("broker-1", "cat", configs["ssl.ca.location"]))
        ours = {"bootstrap.servers": self.outside, "ssl.ca.location": str(authority)}
        return {**configs, **ours, "log_level": "0"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """All services of the file; users are stored."""
    ports = [free_port() for _ in BROKERS]
    given = {f"BROKER_{number}_PORT": str(port) for number, port in enumerate(ports, 1)}
    folder = tmp_path_factory.mktemp("clients")
    logs = tmp_path_factory.mktemp("logs")
    with compose_project("odradek-secure", "docker-compose.secure.yml", given, logs) as project:
        project.compose("up", "--no-build", "-d")
        wait_until_stored(project)
        outside = ",".join(f"localhost:{port}" for port in ports)
        yield SecuredCluster(project, outside, folder)


def wait_until_stored(project: ComposeProject) -> None:
    """Users, ACLs and the topic are there, and each broker takes its own user."""

    def has_ended() -> bool:
        return bool(project.inspect("users")["State"]["Status"] == "exited")

    until(has_ended, "users are stored")
    assert project.inspect("users")["State"]["ExitCode"] == 0, project.log("users")
    project.wait_until_healthy(*BROKERS)


def produce(configs: dict[str, str], value: bytes) -> list[KafkaError | None]:
    """Write one record; the errors of its delivery."""
    errors: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        errors.append(error)

    producer = Producer({**configs, "acks": "all"})
    producer.produce(TOPIC, value, on_delivery=delivered)
    assert producer.flush(120) == 0
    return errors


def read(configs: dict[str, str], group: str, values: set[bytes]) -> None:
    """Read as a member of a group until it has the values."""
    consumer = Consumer({**configs, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    missing: set[bytes | None] = {*values}

    def are_all() -> bool:
        messages = consumer.consume(100, timeout=1.0)
        missing.difference_update(message.value() for message in messages if not message.error())
        return not missing

    until(are_all, f"{group} has {values}")
    consumer.close()


def test_users_may_do_what_their_acls_allow(cluster: SecuredCluster) -> None:
    alice, bob = cluster.configs("alice"), cluster.configs("bob")
    assert produce(alice, b"outside") == [None]
    (error,) = produce(bob, b"refused")
    assert error is not None
    assert error.name() == "TOPIC_AUTHORIZATION_FAILED"
    tool = ("odradek", "console-producer", "--bootstrap-server", INSIDE, "--topic", TOPIC)
    config = ("--producer.config", f"{SECRETS}/alice.properties")
    cluster.project.execute("broker-2", *tool, *config, standard_input="inside\n")
    read(bob, "bobs", {b"outside", b"inside"})


def test_tools_in_containers_list_the_acls(cluster: SecuredCluster) -> None:
    tool = ("odradek", "acls", "--bootstrap-server", INSIDE, "--list", "--topic", TOPIC)
    printed = cluster.project.execute(
        "broker-3", *tool, "--command-config", f"{SECRETS}/admin.properties"
    )
    assert "principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW" in printed
    assert "principal=User:bob, host=*, operation=WRITE" not in printed


def test_killed_broker_and_a_start_of_all_keep_users_and_records(cluster: SecuredCluster) -> None:
    alice = cluster.configs("alice")
    cluster.project.compose("kill", "broker-2")
    assert produce(alice, b"of two") == [None]
    cluster.project.compose("stop")
    cluster.project.compose("start")
    wait_until_stored(cluster.project)
    assert len(AdminClient({**alice}).list_topics(timeout=60).brokers) == 3
    assert produce(alice, b"of three") == [None]
    read(alice, "alices", {b"of two", b"of three"})


def test_secrets_are_in_no_log_and_for_their_owner(cluster: SecuredCluster) -> None:
    configs = [cluster.configs(user) for user in ("alice", "bob", "admin")]
    logs = [cluster.project.log(service) for service in (*BROKERS, "secrets", "users")]
    assert not [1 for log in logs for config in configs if config["sasl.password"] in log]
    modes = cluster.project.execute("broker-1", "bash", "-c", f"stat -c %a {SECRETS}/*")
    assert set(modes.split()) == {"600"}
