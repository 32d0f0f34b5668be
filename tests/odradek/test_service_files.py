"""The unit of systemd for a broker, and the sample that ships its log."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from odradek.start.command import build_parser
from tests.support.broker_process import BrokerProcess
from tests.support.processes import LoggedProcess
from tests.support.tool_cache import PROJECT

CONFIG = PROJECT / "config"
UNIT = CONFIG / "systemd" / "odradek.service"
PROGRAM = "/opt/odradek/bin/odradek"
WAIT_S = 60.0


def exec_start() -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    return shlex.split(line)


def test_unit_is_accepted_by_systemd(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(PROGRAM, sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_unit_runs_a_command_that_there_is() -> None:
    program, subcommand, *words = exec_start()
    assert (program, subcommand) == (PROGRAM, "start")
    assert build_parser().parse_args(words).log_format == "json"


@pytest.mark.client
@pytest.mark.parametrize("is_abstract", [False, True])
def test_broker_notifies_systemd_when_it_serves_and_stops_cleanly(
    tmp_path: Path, is_abstract: bool
) -> None:
    broker = BrokerProcess(tmp_path)
    name = f"@odradek-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name[1:]}" if is_abstract else name)
        manager.settimeout(WAIT_S)
        broker.data.mkdir()
        process = LoggedProcess(
            [*broker.command(), "--log-format", "json"],
            log=tmp_path / "broker.log",
            folder=tmp_path,
            environment={"NOTIFY_SOCKET": name},
        )
        try:
            assert manager.recv(100) == b"READY=1"
            with socket.create_connection(("127.0.0.1", broker.port), WAIT_S):
                pass
            assert process.stop(timeout_s=WAIT_S) == 0
        finally:
            process.kill()
    assert (broker.data / ".kafka_cleanshutdown").is_file()
    # What the sample for Vector takes apart: every line is an object.
    for line in (tmp_path / "broker.log").read_text().splitlines():
        row = json.loads(line)
        assert row.keys() >= {"time", "level", "logger", "message"}, line


def test_sample_for_vector_reads_what_the_unit_and_the_settings_name() -> None:
    sample = tomllib.loads((CONFIG / "vector" / "odradek.toml").read_text())
    assert sample["sources"]["broker"]["include_units"] == [UNIT.name]
    (audit,) = sample["sources"]["audit"]["include"]
    assert f"#odradek.audit.log={audit}" in (CONFIG / "server.properties").read_text()
    assert Path(audit).parent == Path("/var/log/odradek")
    # Each input is a source or a transform.
    parts = {**sample["sources"], **sample["transforms"]}
    for part in (*sample["transforms"].values(), *sample["sinks"].values()):
        assert set(part["inputs"]) <= parts.keys()
