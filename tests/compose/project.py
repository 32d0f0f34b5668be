"""The services of a compose file, under a name and on ports of their own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, Final
from uuid import uuid4

from confluent_kafka.admin import AdminClient, NewTopic

from tests.compose.engine import CommandFailed, run
from tests.support.tool_cache import PROJECT

HEALTHY_TIMEOUT_S: Final = 180.0
LISTED: Final = (
    ("ps", "--all", "--quiet"),
    ("network", "ls", "--quiet"),
    ("volume", "ls", "--quiet"),
)


@cache
def compose_program() -> tuple[str, ...]:
    """The plugin of docker, or the program of the same name."""
    try:
        run(["docker", "compose", "version"], timeout_s=60)
    except CommandFailed:
        return ("docker-compose",)
    return ("docker", "compose")


def until(holds: Callable[[], object], what: str, *, timeout_s: float = HEALTHY_TIMEOUT_S) -> None:
    """Wait until a condition holds."""
    never = Event()
    deadline_s = monotonic() + timeout_s
    while not holds():
        assert monotonic() < deadline_s, f"not within {timeout_s} s: {what}"
        never.wait(0.2)


def create_topic(bootstrap: str, partitions: int, replicas: int) -> str:
    """A new topic; returns its name."""
    name = f"t-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_topics([NewTopic(name, partitions, replicas)]).values()
    created.result(60)
    return name


class ComposeProject:
    """One `docker compose -p NAME -f FILE`."""

    def __init__(self, name: str, file: str, environment: Mapping[str, str]) -> None:
        """environment  what the file's variables are"""
        self.name = name
        self._file = PROJECT / file
        self._environment = dict(environment)

    def compose(self, *words: str) -> str:
        """What a compose command prints."""
        command = [*compose_program(), "-p", self.name, "-f", str(self._file), *words]
        return run(command, self._environment)

    def inspect(self, service: str) -> dict[str, Any]:
        """What the engine knows of a service's container, also of one that has ended."""
        label = f"label=com.docker.compose.service={service}"
        mine = f"label=com.docker.compose.project={self.name}"
        (container,) = run(
            ["docker", "ps", "-a", "-q", "--filter", label, "--filter", mine]
        ).split()
        (description,) = json.loads(run(["docker", "inspect", container]))
        assert isinstance(description, dict)
        return description

    def is_healthy(self, service: str) -> bool:
        """Whether the health check of the container has passed."""
        state = self.inspect(service)["State"]
        assert state["Running"], f"{service} has ended:\n{self.log(service)}"
        return bool(state["Health"]["Status"] == "healthy")

    def wait_until_healthy(self, *services: str) -> None:
        for service in services:
            until(partial(self.is_healthy, service), f"{service} is healthy")

    def execute(self, service: str, *words: str, standard_input: str = "") -> str:
        """What a command in the container prints to standard output."""
        container = self.inspect(service)["Id"]
        done = subprocess.run(
            ["docker", "exec", "-i", container, *words],
            input=standard_input,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def log(self, service: str) -> str:
        """All that the container printed."""
        return run(["docker", "logs", self.inspect(service)["Id"]])

    def left_behind(self) -> list[str]:
        """Containers, networks and volumes that the engine has of it."""
        label = f"label=com.docker.compose.project={self.name}"
        return [
            name for words in LISTED for name in run(["docker", *words, "--filter", label]).split()
        ]


@contextmanager
def compose_project(
    name: str, file: str, environment: Mapping[str, str], logs: Path
) -> Iterator[ComposeProject]:
    """A project that is taken down at the end, volumes included; its output goes to `logs`."""
    project = ComposeProject(name, file, environment)
    try:
        yield project
    finally:
        (logs / f"{name}.log").write_text(project.compose("logs", "--no-color"))
        project.compose("down", "--volumes")
        assert project.left_behind() == []
