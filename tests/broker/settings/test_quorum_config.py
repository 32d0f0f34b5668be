"""KRaft's settings: what a node does in the quorum, and what Apache Kafka 3.9.2 refuses, too."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.listeners import Listener
from odradek.broker.settings.load import make_settings
from odradek.broker.settings.quorum_config import QuorumConfig
from odradek.broker.settings.types import InvalidValueError
from tests.odradek.apache_tool import ApacheProgram
from tests.odradek.console_tools import JAVA_PROGRAM
from tests.support.apache import LOG4J_QUIET

THREE = "1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093"
COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
}
BROKER = {
    "process.roles": "broker",
    "node.id": "4",
    "controller.quorum.voters": THREE,
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092",
}
CONTROLLER = {
    "process.roles": "controller",
    "node.id": "1",
    "controller.quorum.voters": THREE,
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://:9093",
}

SECURED = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL"}


def without(settings: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: text for name, text in settings.items() if name not in names}


def quorum_of(settings: BrokerSettings) -> QuorumConfig:
    assert settings.quorum is not None, "process.roles is set"
    return settings.quorum


DYNAMIC = {
    **without(COMBINED, "controller.quorum.voters"),
    "controller.quorum.bootstrap.servers": "a:9093,b:9093",
    "advertised.listeners": "PLAINTEXT://a:9092,CONTROLLER://a:9093",
}
PARTS = [
    # (settings, where it joins, or the port on which it serves; whether there is a warning)
    ("alone", COMBINED, 9093, False),
    ("first of three", {**COMBINED, "controller.quorum.voters": THREE}, 9093, True),
    (
        "third voter",
        {**COMBINED, "controller.quorum.voters": THREE, "node.id": "3"},
        "kafka-1:9093",
        True,
    ),
    (
        "first of three, in another order",
        {**COMBINED, "controller.quorum.voters": "3@c:9093,2@b:9093,1@a:9093"},
        9093,
        True,
    ),
    (
        "third voter, in another order",
        {**COMBINED, "controller.quorum.voters": "3@c:9093,2@b:9093,1@a:9093", "node.id": "3"},
        "a:9093",
        True,
    ),
    ("broker", BROKER, "kafka-1:9093", True),
    ("broker by IPv6", {**BROKER, "controller.quorum.voters": "1@[::1]:9093"}, "[::1]:9093", False),
    ("controller", CONTROLLER, 9093, True),
    ("standby controller", {**CONTROLLER, "node.id": "2"}, "kafka-1:9093", True),
    (
        "two listeners of the controller",
        {
            **COMBINED,
            "controller.listener.names": "CONTROLLER,SECOND",
            "listeners": "SECOND://:9094,PLAINTEXT://:9092,CONTROLLER://:9093",
        },
        9093,
        False,
    ),
    ("at the first bootstrap server", DYNAMIC, 9093, True),
    (
        "at the second bootstrap server",
        {**DYNAMIC, "advertised.listeners": "PLAINTEXT://b:9092,CONTROLLER://b:9093"},
        "a:9093",
        True,
    ),
    (
        "at a bootstrap server by another name of this machine",
        {**DYNAMIC, "controller.quorum.bootstrap.servers": f"{socket.gethostname()}:9093,b:9093"},
        9093,
        True,
    ),
    (
        "alone at its bootstrap server",
        {
            **without(COMBINED, "controller.quorum.voters"),
            "controller.quorum.bootstrap.servers": "localhost:9093",
        },
        9093,
        False,
    ),
    (
        "broker with bootstrap servers",
        {
            **without(BROKER, "controller.quorum.voters"),
            "controller.quorum.bootstrap.servers": "a:9093,b:9093",
        },
        "a:9093",
        True,
    ),
]


@pytest.mark.parametrize(
    ("settings", "part", "warns"), [row[1:] for row in PARTS], ids=[row[0] for row in PARTS]
)
def test_first_controller_serves_the_coordination_and_others_join_it(
    settings: dict[str, str], part: int | str, *, warns: bool
) -> None:
    made = make_settings(settings)
    quorum = quorum_of(made)
    served = None if quorum.tree_listener is None else quorum.tree_listener.port
    assert (served or made.zookeeper_connect) == part
    assert (made.zookeeper_connect is None) == isinstance(part, int)
    assert made.broker_id == int(settings["node.id"])
    assert (quorum.warning is not None) == warns
    if warns:
        assert "on one node" in str(quorum.warning)
        assert "ZooKeeper ensemble" in str(quorum.warning)


@pytest.mark.parametrize("by", ["controller.quorum.voters", "controller.quorum.bootstrap.servers"])
def test_secured_listener_of_the_only_controller_serves_nothing(by: str) -> None:
    address = "1@localhost:9093" if by == "controller.quorum.voters" else "localhost:9093"
    made = make_settings({**without(COMBINED, "controller.quorum.voters"), **SECURED, by: address})
    quorum = quorum_of(made)
    assert (quorum.coordinates, quorum.tree_listener, made.zookeeper_connect) == (True, None, None)
    assert quorum.standby_listener == Listener("CONTROLLER", "", 9093, "SASL_SSL")
    assert "no other node can join this one" in str(quorum.warning)


def test_listeners_of_the_controller_are_not_for_clients() -> None:
    made = make_settings(
        {**COMBINED, "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://here:9093"}
    )
    client = Listener("PLAINTEXT", "", 9092, "PLAINTEXT")
    assert made.listeners == (client,)
    assert made.advertised_listeners == (client._replace(host="localhost"),)
    assert quorum_of(made).tree_listener == Listener("CONTROLLER", "", 9093, "PLAINTEXT")


def test_times_and_directory_of_the_quorum_are_those_of_kraft() -> None:
    made = make_settings({**BROKER, "log.dirs": "/a,/b"})
    assert made.zookeeper_session_timeout_ms == 9_000
    assert made.zookeeper_connection_timeout_ms == 60_000
    assert made.metadata_log_dir == "/a"
    made = make_settings(
        {
            **COMBINED,
            "log.dirs": "/a,/b",
            "metadata.log.dir": "/c",
            "broker.session.timeout.ms": "6000",
            "initial.broker.registration.timeout.ms": "7000",
        }
    )
    assert made.zookeeper_session_timeout_ms == 6_000
    assert made.zookeeper_connection_timeout_ms == 7_000
    assert made.metadata_log_dir == "/c"
    made = make_settings({"log.dirs": "/a,/b", "metadata.log.dir": "/c"})
    assert made.metadata_log_dir == "/a", "in ZooKeeper mode it has no effect"


REFUSED = [
    # (settings, key and value of our line, whether Apache Kafka refuses it, too)
    (without(COMBINED, "node.id"), "-1 for configuration node.id", True),
    ({**COMBINED, "broker.id": "2"}, "1 for configuration node.id", True),
    ({**COMBINED, "node.id": "2"}, "2 for configuration node.id", True),
    ({**COMBINED, "process.roles": "broker,broker"}, "configuration process.roles", True),
    ({**COMBINED, "process.roles": "broker,observer"}, "configuration process.roles", True),
    (without(COMBINED, "controller.quorum.voters"), "configuration controller.quorum.voters", True),
    ({**COMBINED, "controller.quorum.voters": "localhost:9093"}, "id@host:port", True),
    ({**COMBINED, "controller.quorum.voters": "1@localhost"}, "id@host:port", True),
    ({**COMBINED, "controller.quorum.voters": "x@localhost:9093"}, "id@host:port", True),
    (without(COMBINED, "controller.listener.names"), "controller.listener.names", True),
    (
        {**COMBINED, "listeners": "PLAINTEXT://:9092"},
        "configuration controller.listener.names",
        True,
    ),
    ({**COMBINED, "listeners": "CONTROLLER://:9093"}, "configuration listeners", True),
    ({**COMBINED, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}, "CONTROLLER", True),
    ({**COMBINED, "control.plane.listener.name": "PLAINTEXT"}, "control.plane", True),
    (without(BROKER, "controller.quorum.voters"), "configuration controller.quorum.voters", True),
    (without(BROKER, "controller.listener.names"), "controller.listener.names", True),
    ({**BROKER, "node.id": "2"}, "2 for configuration node.id", True),
    ({**BROKER, "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}, "controller.listener", True),
    ({**BROKER, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}, "CONTROLLER", True),
    ({**CONTROLLER, "node.id": "4"}, "4 for configuration node.id", True),
    ({**CONTROLLER, "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}, "listeners", True),
    ({"controller.listener.names": "CONTROLLER", "zookeeper.connect": "a"}, "CONTROLLER", True),
    ({**BROKER, "advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "0.0.0.0", True),
    # What it takes, and Odradek refuses.
    (
        {**COMBINED, "zookeeper.connect": "a:2181"},
        "a:2181 for configuration zookeeper.connect",
        False,
    ),
    (
        {**COMBINED, "zookeeper.connect": "a:2181", "zookeeper.metadata.migration.enable": "true"},
        "a:2181 for configuration zookeeper.connect",
        False,
    ),
    ({**COMBINED, "odradek.embedded.zookeeper.listener": "1"}, "odradek.embedded", False),
    ({**BROKER, "controller.quorum.voters": "1@0.0.0.0:9093"}, "0.0.0.0:9093", False),
    (
        {**COMBINED, **SECURED, "controller.quorum.voters": THREE},
        "SASL_SSL for configuration listener.security.protocol.map: Only PLAINTEXT is served",
        False,
    ),
    (
        {**CONTROLLER, **SECURED, "controller.quorum.voters": "1@localhost:9093"},
        "SASL_SSL for configuration listener.security.protocol.map: Only PLAINTEXT is served",
        False,
    ),
    (
        {**DYNAMIC, **SECURED, "controller.quorum.bootstrap.servers": "b:9093"},
        "SASL_SSL for configuration listener.security.protocol.map: Only PLAINTEXT is served",
        False,
    ),
    (
        {**BROKER, **SECURED, "controller.quorum.voters": "1@localhost:9093"},
        "where process.roles is broker,controller and no other controller is named",
        False,
    ),
    (
        without({**DYNAMIC, "advertised.listeners": "PLAINTEXT://a:9092"}, ""),
        "a:9093,b:9093 for configuration controller.quorum.bootstrap.servers",
        False,
    ),
]


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheProgram]:
    folder = tmp_path_factory.mktemp("apache")
    with ApacheProgram(folder, JAVA_PROGRAM, log4j=LOG4J_QUIET, heap="128m") as program:
        yield program


@pytest.mark.parametrize(("settings", "expected", "apache_refuses"), REFUSED)
def test_contradiction_is_refused_with_one_line_and_by_apache_kafka_too(
    settings: dict[str, str],
    expected: str,
    apache: ApacheProgram,
    tmp_path: Path,
    *,
    apache_refuses: bool,
) -> None:
    with pytest.raises(InvalidValueError) as refusal:
        make_settings(settings)
    assert expected in refusal.value.line
    assert "\n" not in refusal.value.line
    assert refuses(apache, settings, tmp_path) == apache_refuses


@pytest.mark.parametrize("settings", [row[1] for row in PARTS], ids=[row[0] for row in PARTS])
def test_apache_kafka_takes_what_odradek_takes(
    settings: dict[str, str], apache: ApacheProgram, tmp_path: Path
) -> None:
    assert not refuses(apache, settings, tmp_path)


def refuses(apache: ApacheProgram, settings: Mapping[str, str], folder: Path) -> bool:
    """Whether Apache Kafka refuses a file: its storage tool checks it as the broker does."""
    properties = folder / "server.properties"
    lines = {**settings, "log.dirs": str(folder / "missing")}
    properties.write_text("".join(f"{name}={text}\n" for name, text in lines.items()))
    result = apache.ask(
        {
            "main": "kafka.tools.StorageTool",
            "arguments": ["info", "-c", str(properties)],
            "input": "",
        }
    )
    return "does not exist" not in result.output
