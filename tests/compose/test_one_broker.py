"""The image of the broker, and config/docker/one-broker.yml."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cluster.acknowledged import check, producing
from tests.compose.engine import run
from tests.compose.project import ComposeProject, compose_project, create_topic
from tests.support.ports import free_port

SERVICE = "odradek"
IMAGE_BYTES_MAX = 160_000_000
PROGRESS_S = 90.0
BUILD_TOOLS = ("cc", "g++", "gcc", "ld", "make", "pip", "pip3", "strip", "git", "curl", "wget")
SEARCH = 'for name in "$@"; do command -v "$name"; done; true'
LIBRARIES = "import confluent_kafka, crc32c, kazoo, lz4.frame, re2, snappy, uvloop, zstandard"


@dataclass(frozen=True)
class OneBroker:
    """The running project."""

    project: ComposeProject
    outside: str


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneBroker]:
    """The service of the file, healthy."""
    port = free_port()
    given = {"BROKER_PORT": str(port)}
    logs = tmp_path_factory.mktemp("logs")
    file = "config/docker/one-broker.yml"
    with compose_project("odradek-one-broker", file, given, logs) as project:
        project.compose("up", "--no-build", "-d")
        project.wait_until_healthy(SERVICE)
        yield OneBroker(project, f"localhost:{port}")


def test_image_is_small_and_does_not_run_as_root() -> None:
    (image,) = json.loads(run(["docker", "image", "inspect", "odradek"]))
    print(f"\nthe image has {image['Size'] / 1e6:.0f} MB")
    assert image["Size"] <= IMAGE_BYTES_MAX
    assert image["Config"]["User"] == "1000:1000"


def test_image_has_no_build_tools_and_no_other_python_packages() -> None:
    shell = ["docker", "run", "--rm", "--read-only", "--entrypoint", "sh", "odradek"]
    assert run([*shell, "-c", SEARCH, "sh", *BUILD_TOOLS]) == ""
    python = ["docker", "run", "--rm", "--read-only", "--entrypoint", "python", "odradek"]
    distributions = "from importlib.metadata import distributions as all_of; "
    names = run([*python, "-c", distributions + "print(*(one.name for one in all_of()))"]).split()
    assert "odradek" in names
    assert not {"pip", "setuptools", "wheel", "pyspark", "pytest"}.intersection(names)
    run([*python, "-c", LIBRARIES])


WRITABLE = (
    *("/var/lib/kafka/data", "/tmp/kafka-logs", "/bitnami/kafka", "/bitnami/kafka/data", "/kafka"),
    "/var/lib/odradek",
)
TOOLS = ("kafka-topics", "kafka-topics.sh", "kafka-console-consumer.sh", "nc", "bash", "cub")
PATHS = (
    *("/opt/kafka/bin/kafka-topics.sh", "/opt/bitnami/kafka/bin/kafka-topics.sh"),
    *(f"/etc/kafka/docker/{name}" for name in ("run", "configure", "launch")),
    *(f"/etc/confluent/docker/{name}" for name in ("run", "configure", "ensure", "launch")),
    "/etc/confluent/docker/bash-config",
)
PLACES = """
set -e
for folder in $1; do touch "$folder/written"; done
for tool in $2; do command -v "$tool"; done
for path in $3; do test -x "$path"; done
"""


@pytest.mark.parametrize("user", ["1000", "1001", "54321"])
def test_every_user_finds_the_names_and_places_of_other_images(user: str) -> None:
    lists = (" ".join(WRITABLE), " ".join(TOOLS), " ".join(PATHS))
    command = ["docker", "run", "--rm", "--user", user, "odradek", "bash", "-c", PLACES, "places"]
    assert len(run([*command, *lists]).split()) == len(TOOLS)


UNUSABLE = {
    "KAFKA_NUM_IO_THREADS": ["-e", "KAFKA_NUM_IO_THREADS=0"],
    "KAFKA_ADVERTISED_LISTENERS": ["-e", "KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://0.0.0.0:9092"],
    "KAFKA_LISTENERS": ["-e", "KAFKA_LISTENERS=A://:1", "-e", "KAFKA_CFG_LISTENERS=A://:2"],
    "/readonly": ["-e", "KAFKA_LOG_DIRS=/readonly", "--tmpfs", "/readonly:ro"],
    "/proc": ["-e", "KAFKA_LOG_DIRS=/proc/x"],
}


@pytest.mark.parametrize(("named", "options"), UNUSABLE.items())
def test_container_that_cannot_start_ends_with_one_line(named: str, options: list[str]) -> None:
    command = ["docker", "run", "--rm", *options, "odradek"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if "odradek: " in line]
    assert len(errors) == 1, done.stderr
    assert named in errors[0]
    assert "Traceback" not in done.stderr


def test_killed_container_loses_no_acknowledged_record(one_broker: OneBroker) -> None:
    topic = create_topic(one_broker.outside, 2, 1)
    with producing(one_broker.outside, topic, 2, log_level=0) as (production, sender):
        sender.wait_for(500, PROGRESS_S)
        one_broker.project.compose("kill", SERVICE)
        one_broker.project.compose("start", SERVICE)
        sender.wait_for(500, PROGRESS_S)
    assert not production.failures
    check(production, one_broker.outside)


def test_new_container_on_the_same_volume_has_every_record(one_broker: OneBroker) -> None:
    project = one_broker.project
    topic = create_topic(one_broker.outside, 2, 1)
    with producing(one_broker.outside, topic, 2, log_level=0) as (production, sender):
        sender.wait_for(500, PROGRESS_S)
    project.compose("stop")
    assert project.inspect(SERVICE)["State"]["ExitCode"] == 0
    assert "shut down completed" in project.log(SERVICE)
    project.compose("rm", "--force")
    project.compose("up", "--no-build", "-d")
    project.wait_until_healthy(SERVICE)
    check(production, one_broker.outside)
