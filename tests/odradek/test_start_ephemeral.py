"""`odradek start --ephemeral --port 0 --ready-file FILE`: what tests in any language start."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka.admin import AdminClient

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.schema import ZERO_UUID
from odradek.testing import Security
from tests.clients.kcat_client import run_kcat
from tests.odradek.console_tools import our_tool_here
from tests.support.pauses import pause
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess, die_with_parent
from tests.support.wire import Wire

WAIT_S = 60.0
START = [sys.executable, "-I", "-m", "odradek", "start"]
Started = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Started]:
    """Starts brokers whose temporary folders are in `tmp_path / "tmp"`."""
    (tmp_path / "tmp").mkdir()
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*START, *words],
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=die_with_parent,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def wait_until(state: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Until the state is reached while the process runs."""
    deadline = monotonic() + WAIT_S
    while not state():
        assert process.poll() is None, process.communicate()[0]
        assert monotonic() < deadline
        pause()


def read_ready_file(path: Path, process: subprocess.Popen[str]) -> dict[str, str]:
    """Its lines, once it is there: it is whole then."""
    wait_until(path.exists, process)
    text = path.read_text()
    assert text.endswith("\n")
    return dict(line.split("=", 1) for line in text.splitlines())


def folders(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "tmp").glob("odradek-ephemeral-*"))


def test_free_port_is_advertised_as_dialled_and_data_are_removed_after_sigterm(
    start: Started, tmp_path: Path
) -> None:
    process = start("--ephemeral", "--port", "0", "--ready-file", "ready")
    ready = read_ready_file(tmp_path / "ready", process)
    (folder,) = folders(tmp_path)
    assert ready == {
        "bootstrap_servers": ready["bootstrap_servers"],
        "pid": str(process.pid),
        "data": str(folder),
    }
    with Wire(ready["bootstrap_servers"]) as wire:
        (broker,) = wire.call(MetadataRequest(topics=[]), 12).brokers
        assert f"{broker.host}:{broker.port}" == ready["bootstrap_servers"]
    assert (folder / "meta.properties").is_file()
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, output
    assert not folders(tmp_path)
    assert not (tmp_path / "ready").exists()


def test_offsets_topic_of_an_ephemeral_broker_has_one_partition(
    start: Started, tmp_path: Path
) -> None:
    process = start("--ephemeral", "--port", "0", "--ready-file", "ready")
    ready = read_ready_file(tmp_path / "ready", process)
    topic = MetadataRequestTopic(name="__consumer_offsets", topic_id=ZERO_UUID)
    with Wire(ready["bootstrap_servers"]) as wire:
        deadline = monotonic() + WAIT_S
        request = FindCoordinatorRequest(key="group", key_type=0)
        while wire.call(request, 3).error_code != ErrorCode.NONE:
            assert monotonic() < deadline
        (described,) = wire.call(
            MetadataRequest(topics=[topic], allow_auto_topic_creation=False), 12
        ).topics
    assert len(described.partitions) == 1


def test_sigterm_during_the_start_leaves_no_data(start: Started, tmp_path: Path) -> None:
    process = start("--ephemeral", "--port", "0", "--ready-file", "ready")
    wait_until(lambda: bool(folders(tmp_path)), process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert not folders(tmp_path)
    assert not (tmp_path / "ready").exists()


def test_sigterm_while_a_class_is_made_is_a_stop(tmp_path: Path) -> None:
    code = """if True:
        import os, signal
        from odradek.start.ephemeral import StoppedEarly, data_folder

        class Field:
            def __set_name__(self, owner, name):
                os.kill(os.getpid(), signal.SIGTERM)

        try:
            with data_folder():
                class Made:
                    field = Field()
        except StoppedEarly:
            print("stopped")
    """
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert (done.stdout, done.stderr) == ("stopped\n", "")
    assert not list(tmp_path.iterdir())


def test_end_of_input_stops_the_broker(start: Started, tmp_path: Path) -> None:
    words = ("--ephemeral", "--port", "0", "--ready-file", "ready", "--stop-at-end-of-input")
    process = start(*words)
    read_ready_file(tmp_path / "ready", process)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert not folders(tmp_path)


def test_sigkill_leaves_a_folder_with_the_documented_name(start: Started, tmp_path: Path) -> None:
    process = start("--ephemeral", "--port", "0", "--ready-file", "ready")
    read_ready_file(tmp_path / "ready", process)
    process.kill()
    process.communicate(timeout=WAIT_S)
    assert len(folders(tmp_path)) == 1


def test_ready_file_of_an_earlier_start_is_removed_before_the_broker_is_ready(
    start: Started, tmp_path: Path
) -> None:
    (tmp_path / "ready").write_text("bootstrap_servers=127.0.0.1:1\n")
    process = start("--ephemeral", "--port", "0", "--ready-file", "ready")
    wait_until(lambda: "127.0.0.1:1\n" not in _text(tmp_path / "ready"), process)
    wait_until(lambda: f"pid={process.pid}\n" in _text(tmp_path / "ready"), process)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def test_port_without_ephemeral_data_stay_in_the_folder_data(
    start: Started, tmp_path: Path
) -> None:
    port = free_port()
    process = start("--port", str(port), "--ready-file", "ready")
    ready = read_ready_file(tmp_path / "ready", process)
    assert ready["bootstrap_servers"] == f"127.0.0.1:{port}"
    process.terminate()
    process.communicate(timeout=WAIT_S)
    assert (tmp_path / "data" / "meta.properties").is_file()
    assert not (tmp_path / "ready").exists()


@pytest.mark.parametrize(
    ("words", "exit_code", "reason"),
    [
        (["--ephemeral", "--override", "log.dirs=x"], 2, "not --override log.dirs=x"),
        (["--override", "odradek.fsync.enable=false"], 1, "it needs --ephemeral"),
        (["--ephemeral", "--override", "odradek.fsync.enable=no"], 1, "Allowed: true, false"),
        (["--port", "65536"], 2, "65536 is not a port"),
        (["--ephemeral", "--ready-file", "missing/ready"], 1, "is not a writable folder"),
    ],
)
def test_arguments_that_cannot_be_served_are_refused(
    start: Started, tmp_path: Path, words: list[str], exit_code: int, reason: str
) -> None:
    process = start(*words)
    output, _ = process.communicate(timeout=WAIT_S)
    assert (process.returncode, reason in output) == (exit_code, True), output
    assert not folders(tmp_path)


@pytest.mark.parametrize(
    ("options", "users"),
    [
        (("--sasl", "PLAIN", "--user", "alice:alice-secret"), ("alice",)),
        (("--sasl", "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN", "--tls"), ("alice",)),
        (("--sasl", "SCRAM-SHA-512", "--user", "carol", "--user", 'bob:b:"o\\b'), ("carol", "bob")),
        (("--sasl", "PLAIN", "--user", "CN=a b,O=c:x", "--user", 'd"\\:y'), ("CN=a b,O=c", 'd"\\')),
        (("--tls",), ("client",)),
    ],
    ids=["plain", "sasl-ssl", "scram", "strange-names", "tls"],
)
def test_users_and_certificates_are_made_at_the_start(
    start: Started, tmp_path: Path, options: tuple[str, ...], users: tuple[str, ...]
) -> None:
    process = start("--ephemeral", "--port", "0", "--ready-file", "ready", *options)
    ready = read_ready_file(tmp_path / "ready", process)
    clients = Path(ready["clients"])
    for user in users:
        file = str(clients / f"{user}.conf")
        run_kcat(["-F", file, "-P", "-t", "greetings"], user.encode() + b"\n")
        read = run_kcat(["-F", file, "-C", "-t", "greetings", "-e", "-q"])
        assert user.encode() in read.splitlines()
        words = ("--bootstrap-server", ready["bootstrap_servers"], "--list")
        file = str(clients / f"{user}.properties")
        described = our_tool_here("topics", [*words, "--command-config", file])
        assert described.output.split() == ["greetings"], described
    assert process.stdin is not None
    assert stat.S_IMODE(clients.stat().st_mode) == 0o700
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, output
    assert f"kcat -F {clients}/{users[0]}.conf -P -t greetings" in output
    assert "secret" not in output
    assert not folders(tmp_path)


def test_each_mechanism_of_a_start_lets_the_user_in(start: Started, tmp_path: Path) -> None:
    mechanisms = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
    words = ("--sasl", ",".join(mechanisms), "--user", "alice:alice-secret")
    process = start("--ephemeral", "--port", "0", "--ready-file", "ready", *words)
    address = read_ready_file(tmp_path / "ready", process)["bootstrap_servers"]
    for mechanism in mechanisms:
        login = Security({"alice": "alice-secret"}, mechanism=mechanism).confluent_config()
        metadata = AdminClient({"bootstrap.servers": address, **login}).list_topics(timeout=60)
        assert set(metadata.brokers) == {0}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--sasl", "PLAIN"), "they need --ephemeral"),
        (("--ephemeral", "--user", "alice"), "--user is for --sasl"),
        (("--ephemeral", "--sasl", "GSSAPI"), "mechanism GSSAPI: expected PLAIN, SCRAM-SHA-256"),
        (("--sasl", ""), "they need --ephemeral"),
        (("--ephemeral", "--sasl", ""), "--sasl names no mechanism"),
        (("--ephemeral", "--sasl", " , ", "--tls"), "--sasl names no mechanism"),
        (("--ephemeral", "--sasl", "PLAIN,GSSAPI"), "mechanism GSSAPI: expected PLAIN"),
        (("--ephemeral", "--sasl", "PLAIN", "--user", "../x:y"), "users: the name of one is"),
        (("--ephemeral", "--sasl", "PLAIN", "--user", "admin"), "users: admin is made by"),
        (("--ephemeral", "--sasl", "SCRAM-SHA-256", "--user", "zoë"), "users: zoë is beyond ASCII"),
        (
            ("--ephemeral", "--sasl", "SCRAM-SHA-256", "--user", "."),
            "SCRAM-SHA-256 has no user '.'",
        ),
        (("--ephemeral", "--sasl", "PLAIN", "--user", "zoë:a\nb"), "users: a name or a password"),
        (("--ephemeral", "--sasl", "SCRAM-SHA-256", "--from", "x"), "stored in new data"),
        (("--ephemeral", "--tls", "server.properties"), "not with CONFIG"),
    ],
)
def test_options_of_security_that_exclude_each_other_are_refused(
    start: Started, tmp_path: Path, words: tuple[str, ...], expected: str
) -> None:
    process = start(*words)
    output, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 2
    assert expected in output.splitlines()[-1]
    assert not folders(tmp_path)


def test_started_lines_of_a_server_start_are_in_the_format_of_the_log(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-m", "odradek", "server-start", "--log-format", "json"]
    settings = [
        "broker.id=0",
        f"log.dirs={tmp_path}/data",
        f"listeners=PLAINTEXT://127.0.0.1:{free_port()}",
    ]
    words = [word for text in settings for word in ("--override", text)]
    with LoggedProcess([*command, *words], log=tmp_path / "log", folder=tmp_path) as process:
        process.wait_for_line("Transitioning from RECOVERY to RUNNING", timeout_s=WAIT_S)
        assert process.stop(timeout_s=WAIT_S) == 0
    messages = [json.loads(line)["message"] for line in (tmp_path / "log").read_text().splitlines()]
    assert "[KafkaServer id=0] started (kafka.server.KafkaServer)" in messages
