"""Containers and settings files of a ZooKeeper, served by a node that coordinates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient

from odradek.container.names import EnvironmentRefused
from odradek.container.zookeeper_config import coordination_settings, zookeeper_properties
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess

READY_TIMEOUT_S: Final = 120.0
COMMAND: Final = [sys.executable, "-I", "-m", "odradek", "zookeeper-server-start"]
FOR_ZOOKEEPER: Final[tuple[tuple[dict[str, str], tuple[str, str] | None], ...]] = (
    ({"ZOOKEEPER_CLIENT_PORT": "32181"}, ("32181", "/var/lib/zookeeper/data")),
    ({"ALLOW_ANONYMOUS_LOGIN": "yes"}, ("2181", "/bitnami/zookeeper/data")),
    ({"ALLOW_ANONYMOUS_LOGIN": "yes", "ZOO_PORT_NUMBER": "1"}, ("1", "/bitnami/zookeeper/data")),
    ({"ZOOKEEPER_CLIENT_PORT": "2181", "KAFKA_BROKER_ID": "1"}, None),
    ({}, None),
)


@pytest.mark.parametrize(("environment", "expected"), FOR_ZOOKEEPER)
def test_environment_of_a_zookeeper_gives_port_and_folder(
    environment: dict[str, str], expected: tuple[str, str] | None
) -> None:
    properties = zookeeper_properties(environment)
    assert expected == (properties and (properties["clientPort"], properties["dataDir"]))


REFUSED: Final = (
    ({"clientPort": "2181", "dataDir": "d", "server.1": "a", "server.2": "b"}, "one server"),
    ({"dataDir": "d"}, "clientPort"),
    ({"clientPort": "70000", "dataDir": "d"}, "expected a port"),
    ({"clientPort": "2181"}, "dataDir"),
)


@pytest.mark.parametrize(("properties", "reason"), REFUSED)
def test_unusable_settings_of_a_zookeeper_are_refused(
    properties: dict[str, str], reason: str
) -> None:
    with pytest.raises(EnvironmentRefused, match=reason):
        coordination_settings(properties, "file")


def test_folder_in_place_of_the_settings_is_named_once(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"odradek: {tmp_path}: Is a directory\n")


def test_ensemble_in_the_environment_is_refused() -> None:
    environment = {"ZOOKEEPER_CLIENT_PORT": "1", "ZOOKEEPER_SERVERS": "a:1:2;b:1:2"}
    with pytest.raises(EnvironmentRefused, match="ZOOKEEPER_SERVERS"):
        zookeeper_properties(environment)


def test_server_keeps_what_a_client_of_zookeeper_has_written(tmp_path: Path) -> None:
    port = free_port()
    file = tmp_path / "zookeeper.properties"
    file.write_text(f"dataDir={tmp_path}/data\nclientPort={port}\ntickTime=2000\n")
    for expected in (None, b"text"):
        with LoggedProcess([*COMMAND, str(file)], log=tmp_path / "log") as process:
            process.wait_for_line("odradek is ready: controller 0", timeout_s=READY_TIMEOUT_S)
            client = KazooClient(f"127.0.0.1:{port}")
            client.start(timeout=READY_TIMEOUT_S)
            if expected is None:
                client.create("/node", b"text")
            assert client.get("/node")[0] == b"text"
            client.stop()
            client.close()
            assert process.stop() == 0


def test_data_of_apache_zookeeper_are_refused_and_left_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "data/version-2").mkdir(parents=True)
    file = tmp_path / "zookeeper.properties"
    file.write_text(f"dataDir={tmp_path}/data\nclientPort={free_port()}\n")
    done = subprocess.run([*COMMAND, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "has data of Apache ZooKeeper" in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["version-2"]
