"""`odradek start` as a process: its output, its listeners and its data."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.start.command import ready_line
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess
from tests.support.wire import Wire

READY_TIMEOUT_S = 120.0
START = [sys.executable, "-I", "-m", "odradek", "start"]


@contextmanager
def started(folder: Path, *words: str) -> Iterator[LoggedProcess]:
    """Within, a broker runs whose working directory is `folder`, in an interpreter of its own."""
    process = LoggedProcess(
        [*START, *words],
        log=folder / "broker.log",
        folder=folder,
        environment={"PYTHONUNBUFFERED": "1"},
        is_executed=True,
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
    line = ready_line([address], ["/data"], "defaults")
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


LONG = "9" * 5_000
ODD: dict[str, tuple[list[str], int, str]] = {
    "port": (["--port", LONG], 2, "... is not a port"),
    "port of a listener": (
        *(["--override", f"listeners=PLAINTEXT://127.0.0.1:{LONG}"], 1),
        "for configuration listeners: ",
    ),
    "host": (
        ["--override", "listeners=PLAINTEXT://a..b:1"],
        1,
        "listeners: PLAINTEXT://a..b:1 has",
    ),
    "advertised host": (
        ["--override", f"advertised.listeners=PLAINTEXT://{'x' * 300}:1"],
        *(1, "for configuration advertised.listeners: "),
    ),
    "host of ZooKeeper": (
        ["--override", "zookeeper.connect=h:2181,a..b:2181"],
        *(1, "h:2181,a..b:2181 for configuration zookeeper.connect: Expected hosts, which 'a..b:"),
    ),
    "path": (
        ["--override", "log.dirs=/tmp/\udce9"],
        1,
        "/tmp/\\udce9 for configuration log.dirs: ",
    ),
    "file in place of a folder": (
        ["--override", "log.dirs=fifo"],
        *(1, "/fifo/.lock: Not a directory"),
    ),
    "id": (["--override", f"broker.id={LONG}"], 1, "for configuration broker.id: "),
    "fifo": (["fifo"], 1, "Cannot read the settings in fifo: a named pipe, not a file"),
    "device": (["/dev/zero"], 1, "Cannot read the settings in /dev/zero: more than 4194304 bytes"),
    "folder": (["/"], 1, "Cannot read the settings in /: Is a directory"),
    "snapshot": (["--ephemeral", "--from", "fifo"], 1, "odradek: fifo: a named pipe, not a file"),
    "missing snapshot": (
        *(["--ephemeral", "--from", "missing"], 1, "odradek: missing: No such file or directory"),
    ),
    "broker of a snapshot": (
        ["--ephemeral", "--from", "missing", "--override", f"broker.id={LONG}"],
        *(1, "odradek: missing: No such file or directory"),
    ),
    "token": (
        ["--ephemeral", "--port", "0", "--control", "--control-token-file", "fifo"],
        *(1, "fifo: a named pipe, not a file"),
    ),
    "place of a snapshot": (
        *(["--ephemeral", "--save", "missing/file"], 1, "the file of --save cannot be written: "),
    ),
    "folder in place of a snapshot": (["--ephemeral", "--save", "."], 1, ": . is a folder"),
    "place of a report": (
        ["--ephemeral", "--api-report", "missing/file"],
        *(1, "the file of --api-report cannot be written: "),
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_value_ends_a_start_with_one_line(tmp_path: Path, name: str) -> None:
    words, exit_code, reason = ODD[name]
    os.mkfifo(tmp_path / "fifo")
    done = subprocess.run(
        [*START, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == exit_code, done.stderr
    *usage, line = done.stderr.splitlines()
    assert reason in line
    assert len(line) < 700
    assert not usage or usage[0].startswith("usage: ")
    assert "Traceback" not in done.stderr
    assert "Errno" not in done.stderr
    assert os.listdir(tmp_path) == ["fifo"]


def test_settings_are_read_from_the_pipe_of_a_shell(tmp_path: Path) -> None:
    read, write = os.pipe()
    with os.fdopen(write, "w") as pipe:
        pipe.write("num.partitions=many\n")
    done = subprocess.run(
        [*START, f"/dev/fd/{read}"],
        cwd=tmp_path,
        pass_fds=[read],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(read)
    assert done.returncode == 1
    assert "Invalid value many" in done.stderr


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


@pytest.mark.parametrize("command", ["start", "server-start"])
def test_broker_whose_stdout_is_full_serves_and_stops(tmp_path: Path, command: str) -> None:
    port = free_port()
    settings = tmp_path / "server.properties"
    settings.write_text(f"listeners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={tmp_path}/data\n")
    words = [sys.executable, "-I", "-m", "odradek", command, str(settings)]
    with (
        open("/dev/full", "wb") as full,
        subprocess.Popen(words, stdout=full, stderr=subprocess.PIPE, text=True) as broker,
    ):
        assert broker.stderr is not None
        for line in broker.stderr:
            if "stdout takes no line: No space left on device" in line:
                break
        with Wire(f"127.0.0.1:{port}") as wire:
            assert wire.call(ApiVersionsRequest(), 0).error_code == 0
        broker.send_signal(signal.SIGTERM)
        broker.communicate(timeout=READY_TIMEOUT_S)
        assert broker.returncode == 0
