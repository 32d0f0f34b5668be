"""`odradek start` as a process: its output, its listeners and its data."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.start import ready_line
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess

READY_TIMEOUT_S = 120.0
START = [sys.executable, "-I", "-m", "odradek", "start"]


@contextmanager
def started(folder: Path, *words: str) -> Iterator[LoggedProcess]:
    """Within, a broker runs whose working directory is `folder`."""
    process = LoggedProcess(
        [*START, *words],
        log=folder / "broker.log",
        folder=folder,
        environment={"PYTHONUNBUFFERED": "1"},
    )
    try:
        yield process
        assert process.stop(timeout_s=READY_TIMEOUT_S) == 0
    finally:
        process.kill()


def test_start_without_settings_listens_on_loopback_with_data_in_the_folder_data(
    tmp_path: Path,
) -> None:
    port = free_port()
    listeners = f"listeners=PLAINTEXT://127.0.0.1:{port}"
    with started(tmp_path, "--override", listeners) as broker:
        line = broker.wait_for_line("odradek is ready", timeout_s=READY_TIMEOUT_S)
        assert line.startswith(
            f"odradek is ready on 127.0.0.1:{port}; data in {tmp_path}/data; "
            "no settings file, so defaults -- try: "
        )
    assert (tmp_path / "data" / "meta.properties").is_file()
    assert any(line.endswith("odradek: shutting down") for line in broker.lines())
    assert "odradek: shut down completed" in broker.lines()[-1]
    assert (tmp_path / "data" / ".kafka_cleanshutdown").is_file()


def test_ready_line_names_listeners_and_settings_file(tmp_path: Path) -> None:
    ports = sorted((free_port(), free_port()))
    settings = tmp_path / "server.properties"
    settings.write_text(
        f"listeners=PLAINTEXT://127.0.0.1:{ports[0]},INNER://127.0.0.1:{ports[1]}\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT\n"
        "inter.broker.listener.name=INNER\nlog.dirs=one,two\n"
    )
    with started(tmp_path, "server.properties") as broker:
        line = broker.wait_for_line("odradek is ready", timeout_s=READY_TIMEOUT_S)
        assert line.startswith(
            f"odradek is ready on 127.0.0.1:{ports[0]}, 127.0.0.1:{ports[1]}; "
            f"data in {tmp_path}/one, {tmp_path}/two; settings {settings} -- try: "
        )


@pytest.mark.parametrize(
    ("address", "listening", "reachable"),
    [
        ("0.0.0.0:9092", "0.0.0.0:9092 (every interface)", "127.0.0.1:9092"),
        ("[::]:9092", "[::]:9092 (every interface)", "[::1]:9092"),
        ("10.0.0.1:9092", "10.0.0.1:9092", "10.0.0.1:9092"),
    ],
)
def test_ready_line_reports_a_listener_on_every_interface(
    address: str, listening: str, reachable: str
) -> None:
    line = ready_line([address], ["/data"], None)
    assert line.startswith(f"odradek is ready on {listening}; ")
    assert f"kcat -P -b {reachable} " in line


def test_json_logs_have_json_lines_and_a_ready_line_with_fields(tmp_path: Path) -> None:
    port = free_port()
    overrides = ["--override", f"listeners=PLAINTEXT://127.0.0.1:{port}"]
    with started(tmp_path, *overrides, "--log-format", "json") as broker:
        line = broker.wait_for_line("odradek is ready", timeout_s=READY_TIMEOUT_S)
        ready = json.loads(line)
        assert ready["addresses"] == [f"127.0.0.1:{port}"]
        assert ready["log_dirs"] == [f"{tmp_path}/data"]
        assert ready["config"] is None
    for line in (tmp_path / "broker.log").read_text().splitlines():
        json.loads(line)


@pytest.mark.parametrize(("level", "is_logged"), [("warn", True), ("ERROR", False)])
def test_messages_below_the_log_level_are_not_logged(
    tmp_path: Path, level: str, is_logged: bool
) -> None:
    port = free_port()
    words = ["--override", f"listeners=PLAINTEXT://127.0.0.1:{port}", "--log-level", level]
    with started(tmp_path, *words, "--override", "no.such.setting=1") as broker:
        broker.wait_for_line("odradek is ready", timeout_s=READY_TIMEOUT_S)
    log = (tmp_path / "broker.log").read_text()
    assert ("no.such.setting" in log) == is_logged
    assert " INFO " not in log


@pytest.mark.parametrize(
    ("words", "exit_code", "reason"),
    [
        (["--log-level", "LOUD"], 2, "invalid choice: 'LOUD'"),
        (["--no-such-flag"], 2, "unrecognized arguments: --no-such-flag"),
        (["--override", "num.partitions"], 2, "Invalid override num.partitions"),
        (["--override", "=5"], 2, "Invalid override =5"),
        (["--override", "num.partitions=many"], 1, "Invalid value many"),
        (["missing.properties"], 1, "Cannot read the settings in missing.properties"),
    ],
)
def test_invalid_arguments_exit_with_2_and_unreadable_settings_with_1(
    tmp_path: Path, words: Sequence[str], exit_code: int, reason: str
) -> None:
    done = subprocess.run(
        [*START, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == exit_code
    assert reason in done.stderr


def test_failed_start_with_json_logs_reports_the_reason_in_json(tmp_path: Path) -> None:
    words = ["--log-format", "json", "--override", "num.partitions=many"]
    done = subprocess.run(
        [*START, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    (line,) = map(json.loads, done.stderr.splitlines())
    assert (done.returncode, line["level"]) == (1, "CRITICAL")
    assert "Invalid value many" in line["message"]


def test_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*START, "--override", f"listeners=PLAINTEXT://127.0.0.1:{port}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"odradek: cannot listen on PLAINTEXT://127.0.0.1:{port}: Address already in use; "
        f"stop what listens there, or take another port: --port {port + 1}"
    )
