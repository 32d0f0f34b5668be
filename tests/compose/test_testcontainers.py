"""Testcontainers' own modules start the image in place of those that they are written for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka import Producer

from tests.cluster.acknowledged import read_all
from tests.compose.engine import run
from tests.compose.project import create_topic
from tests.support.built_examples import built
from tests.support.certificates import Authority
from tests.support.programs import go_compiler

PROGRAMS: Final = Path(__file__).parent / "testcontainers"
TAG: Final = "odradek:7.9.0"
"""Kafka 3.9 is in Confluent Platform 7.9; some modules compare the tag."""
GREETINGS: Final = "0 hello\n1 from\n2 Odradek\n"
RECORDS: Final = 50
READY_TIMEOUT_S: Final = 120.0


class Language(NamedTuple):
    """How an example's libraries are fetched, and how it and the program of this test are run."""

    program: str
    fetch: tuple[str, ...]
    example: tuple[str, ...]
    command: tuple[str, ...]


PIP_INSTALL: Final = (sys.executable, "-m", "pip", "install", "-q")
GO_BUILD: Final = "GO build -o greetings main.go && GO build -o containers containers.go"
LANGUAGES: Final[Mapping[str, Language]] = {
    "java": Language(
        "Containers.java",
        ("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"),
        ("java", "-cp", "libs/*", "Greetings.java"),
        ("java", "-XX:TieredStopAtLevel=1", "-cp", "libs/*", "Containers.java"),
    ),
    "python": Language(
        "containers.py",
        (*PIP_INSTALL, "--target", "libs", "-r", "requirements.txt"),
        (sys.executable, "greetings.py"),
        (sys.executable, "containers.py"),
    ),
    "go": Language("containers.go", ("sh", "-c", GO_BUILD), ("./greetings",), ("./containers",)),
    "node": Language(
        "containers.js",
        ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"),
        ("node", "greetings.js"),
        ("node", "containers.js"),
    ),
}
CONTAINERS: Final = (
    *(("java", name, "kafka:19092") for name in ("apache", "confluent", "zookeeper", "kraft")),
    *(("python", name, "kafka:9092") for name in ("zookeeper", "kraft")),
    *(("go", name, "kafka:9092") for name in ("random-id", "cluster-id")),
    *(("node", name, "kafka:9092") for name in ("zookeeper", "kraft")),
)
"""Language, container, and the address of its second listener on the network."""


def folder_of(language: str) -> Path:
    """The example and the program of this test, with their libraries."""
    words = [word.replace("GO ", f"{go_compiler()} ") for word in LANGUAGES[language].fetch]
    return built(f"testcontainers-{language}", words, PROGRAMS / LANGUAGES[language].program)


def environment() -> dict[str, str]:
    """Without the container that removes others, whose image is in a registry."""
    return {
        **os.environ,
        "TESTCONTAINERS_RYUK_DISABLED": "true",
        # Also where the tests run in a container themselves, but the engine beside them.
        "TESTCONTAINERS_HOST_OVERRIDE": "localhost",
        "PYTHONPATH": "libs",
    }


@pytest.fixture(scope="module", autouse=True)
def tagged() -> Iterator[None]:
    """The tag that the examples name; no container is left behind."""
    run(["docker", "tag", "odradek", TAG])
    before = run(["docker", "ps", "-aq"])
    yield
    assert run(["docker", "ps", "-aq"]) == before
    run(["docker", "rmi", TAG])


@pytest.mark.parametrize("language", LANGUAGES)
def test_example_prints_its_records(language: str) -> None:
    done = subprocess.run(
        LANGUAGES[language].example,
        cwd=folder_of(language),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=READY_TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, GREETINGS), done.stderr


@pytest.mark.parametrize(("language", "name", "inside"), CONTAINERS)
def test_container_serves_both_sides_of_its_network(
    language: str, name: str, inside: str, tmp_path: Path
) -> None:
    with (
        open(tmp_path / "errors", "w+") as errors,
        subprocess.Popen(
            [*LANGUAGES[language].command, name],
            cwd=folder_of(language),
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        # The modules themselves give up after at most two minutes.
        line = process.stdout.readline()
        assert line, (tmp_path / "errors").read_text()
        bootstrap, network, ready_ms = line.split()
        print(f"\n{language} {name}: ready {ready_ms} ms after the start of its container")
        topic = create_topic(bootstrap, 1, 1)
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
        for number in range(RECORDS):
            producer.produce(topic, b"%d" % number)
        assert producer.flush(60) == 0
        assert read_all(bootstrap, topic, 1) == {0: list(range(RECORDS))}
        consumer = ("kafka-console-consumer.sh", "--bootstrap-server", inside, "--topic", topic)
        words = ("--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "60000")
        inner = ["docker", "run", "--rm", "--network", network, "odradek", *consumer, *words]
        printed = subprocess.run(inner, capture_output=True, text=True, timeout=120, check=True)
        assert printed.stdout.split() == [str(number) for number in range(RECORDS)]
        process.communicate("", timeout=READY_TIMEOUT_S)
    assert process.returncode == 0, (tmp_path / "errors").read_text()


@pytest.mark.parametrize("name", ["sasl-zookeeper", "sasl-kraft"])
def test_listener_of_node_for_users_lets_them_in(name: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    store = authority.server().pkcs12()
    configs = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.trusted),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
        "acks": "all",
    }
    with (
        open(tmp_path / "errors", "w+") as errors,
        subprocess.Popen(
            [*LANGUAGES["node"].command, name],
            cwd=folder_of("node"),
            env={**environment(), "KEY_STORE": str(store)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        bootstrap = process.stdout.readline().strip()
        assert bootstrap, (tmp_path / "errors").read_text()
        producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **configs})
        producer.produce("orders", b"one")
        assert producer.flush(60) == 0
        process.communicate("", timeout=READY_TIMEOUT_S)
    assert process.returncode == 0, (tmp_path / "errors").read_text()


def test_shell_keeps_variables_with_a_dash() -> None:
    variable = "KAFKA_LISTENER_NAME_SECURE_SCRAM-SHA-512_SASL_JAAS_CONFIG=given"
    command = ["docker", "run", "--rm", "-e", variable, "odradek", "sh", "-c", "env; true"]
    assert variable in run(command).splitlines()
