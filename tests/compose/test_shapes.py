"""Compose files as public projects have them for other images of Kafka: only the image differs."""

from __future__ import annotations

import re
import urllib.request
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.cluster.acknowledged import read_all
from tests.compose.engine import run
from tests.compose.project import ComposeProject, compose_project, create_topic, until
from tests.support.ports import free_port

INSIDE: Final = "broker:29092"
RECORDS: Final = 100
GRACE_S: Final = 10.0
"""Of `compose down`; then containers are killed."""
STARTED: Final = (
    r"\[KafkaServer id=\d+\] started",
    r"Kafka Server started",
    r"Transitioning from RECOVERY to RUNNING",
)


class Shape(NamedTuple):
    """A file, and what it promises."""

    file: str
    brokers: tuple[int, ...]
    """Their ids."""
    topics: tuple[str, ...] = ()
    """Those that the file itself creates."""


SHAPES: Final = (
    Shape("confluent_zookeeper", (1,)),
    Shape("zookeeper_server_start", (3,)),
    Shape("bitnami_zookeeper", (1,)),
    Shape("three_zookeeper", (1, 2, 3)),
    Shape("apache_kraft", (1,)),
    Shape("bitnami_kraft", (0,)),
    Shape("three_kraft", (1, 2, 3)),
    Shape("three_kraft_isolated", (4, 5, 6)),
    Shape("create_topics", (1001,), ("created-1", "created-2")),
    Shape("init_container", (1,), ("created-1", "created-2")),
    Shape("mounted_file", (5,)),
)


def outside(ports: dict[str, str]) -> str:
    """The addresses that programs on this machine use."""
    return ",".join(f"localhost:{port}" for port in ports.values())


def broker_services(shape: Shape) -> list[str]:
    """The services of a file that are brokers."""
    return ["broker", *(f"broker-{number}" for number in range(2, len(shape.brokers) + 1))]


def stop(project: ComposeProject) -> float:
    """Stop everything as `compose down` does; returns how long it took, in seconds."""
    began = monotonic()
    project.compose("stop")
    return monotonic() - began


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.file for shape in SHAPES])
def test_file_for_another_image_runs_with_this_one(shape: Shape, tmp_path: Path) -> None:
    names = ("PORT", "PORT_2", "PORT_3")[: len(shape.brokers)]
    ports = {name: str(free_port()) for name in names}
    file = f"tests/compose/shapes/{shape.file}.yml"
    name = f"odradek-{shape.file.replace('_', '-')}"
    with compose_project(name, file, ports, tmp_path) as project:
        began = monotonic()
        project.compose("up", "-d")
        admin = AdminClient({"bootstrap.servers": outside(ports), "log_level": 0})
        services = broker_services(shape)
        until(lambda: registered(project, services, admin) == {*shape.brokers}, "every broker")
        print(f"\n{shape.file}: registered {monotonic() - began:.1f} s after `up`")
        created = set(shape.topics)
        until(lambda: created <= set(admin.list_topics(timeout=60).topics), "topics of the file")
        write_outside_and_read_on_both_sides(project, outside(ports), len(shape.brokers))
        for service in services:
            log = project.log(service)
            assert [line for line in STARTED if not re.search(line, log)] == [], log
        took_s = stop(project)
        containers = run(
            ["docker", "ps", "-aq", "--filter", f"label=com.docker.compose.project={name}"]
        ).split()
        for container in containers:
            state = ["docker", "inspect", "--format", "{{.State.ExitCode}}", container]
            assert run(state).strip() == "0", run(["docker", "logs", container])
            assert "Traceback" not in run(["docker", "logs", container])
        assert took_s < GRACE_S + len(containers)


def registered(project: ComposeProject, services: list[str], admin: AdminClient) -> set[int]:
    """The ids of the brokers; none while the cluster cannot be reached."""
    for service in services:
        assert project.inspect(service)["State"]["Running"], project.log(service)
    try:
        return set(admin.list_topics(timeout=1).brokers)
    except KafkaException:
        return set()


def write_outside_and_read_on_both_sides(
    project: ComposeProject, bootstrap: str, replicas: int
) -> None:
    topic = create_topic(bootstrap, 1, replicas)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(60) == 0
    assert read_all(bootstrap, topic, 1) == {0: list(range(RECORDS))}
    tool = ("kafka-console-consumer.sh", "--bootstrap-server", INSIDE, "--topic", topic)
    words = ("--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "60000")
    printed = project.execute("broker", *tool, *words)
    assert printed.split() == [str(number) for number in range(RECORDS)]


def test_health_checks_in_use_pass(tmp_path: Path) -> None:
    ports = {"PORT": str(free_port())}
    file = "tests/compose/shapes/health_checks.yml"
    with compose_project("odradek-health-checks", file, ports, tmp_path) as project:
        project.compose("up", "-d")
        project.wait_until_healthy("broker", "by-image", "by-nc", "by-bash")


def test_exporter_of_another_project_beside_a_broker_shows_its_topics(tmp_path: Path) -> None:
    ports = {"PORT": str(free_port()), "EXPORTER_PORT": str(free_port())}
    file = "tests/compose/shapes/exporter_beside.yml"
    with compose_project("odradek-exporter-beside", file, ports, tmp_path) as project:
        project.compose("up", "-d", "--build")
        bootstrap = f"localhost:{ports['PORT']}"
        topic = create_topic(bootstrap, 1, 1)
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
        for number in range(RECORDS):
            producer.produce(topic, b"%d" % number)
        assert producer.flush(60) == 0
        line = f'kafka_topic_highwater{{partition="0",topic="{topic}"}} {RECORDS}.0'

        def is_shown() -> bool:
            with suppress(OSError):
                url = f"http://localhost:{ports['EXPORTER_PORT']}/metrics"
                with urllib.request.urlopen(url, timeout=10) as response:
                    return line in response.read().decode().splitlines()
            return False

        until(is_shown, "the exporter shows the high watermark")
