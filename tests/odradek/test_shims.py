"""The scripts that `odradek shims` writes in place of those in Apache Kafka's bin/."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from odradek.command import SUBCOMMANDS, main
from odradek.tools import server_stop
from odradek.tools.shims.command import MARK
from odradek.tools.shims.scripts import SCRIPTS, not_served, script_of_class
from tests.support.compacted import wait_until
from tests.support.ports import free_port

TIMEOUT_S = 60.0
APACHE_BIN = """
connect-distributed connect-mirror-maker connect-plugin-path connect-standalone kafka-acls
kafka-broker-api-versions kafka-client-metrics kafka-cluster kafka-configs kafka-console-consumer
kafka-console-producer kafka-consumer-groups kafka-consumer-perf-test kafka-delegation-tokens
kafka-delete-records kafka-dump-log kafka-e2e-latency kafka-features kafka-get-offsets kafka-jmx
kafka-leader-election kafka-log-dirs kafka-metadata-quorum kafka-metadata-shell kafka-mirror-maker
kafka-producer-perf-test kafka-reassign-partitions kafka-replica-verification kafka-run-class
kafka-server-start kafka-server-stop kafka-storage kafka-streams-application-reset kafka-topics
kafka-transactions kafka-verifiable-consumer kafka-verifiable-producer trogdor
zookeeper-security-migration zookeeper-server-start zookeeper-server-stop zookeeper-shell
"""
"""The scripts of Apache Kafka 3.9, without `.sh`."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts, in a folder with a blank in its name."""
    path = tmp_path_factory.mktemp("shims") / "kafka bin"
    assert main(["shims", str(path)]) == 0
    return path


def run(path: Path, *words: str, **environment: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error)."""
    done = subprocess.run(
        [path, *words],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=os.environ | environment,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_every_script_of_apache_kafka_is_there_in_both_forms(folder: Path) -> None:
    names = APACHE_BIN.split()
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [*names, *(f"{name}.sh" for name in names)]
    )
    assert all(os.access(path, os.X_OK) for path in folder.iterdir())


def test_every_command_of_a_script_exists() -> None:
    assert not [script for script in SCRIPTS if script.command not in (None, *SUBCOMMANDS)]
    assert not [script for script in SCRIPTS if (script.command is None) != bool(script.text)]


def test_main_class_belongs_to_one_script() -> None:
    classes = [name for script in SCRIPTS for name in script.classes]
    assert len(classes) == len(set(classes))


def test_script_runs_its_tool_with_all_arguments(folder: Path) -> None:
    for name in ("kafka-topics.sh", "kafka-topics"):
        assert run(folder / name, "--version") == (0, "3.9.2\n", "")
    code, _, errors = run(folder / "kafka-topics.sh", "--bootstrap-server", "a b", "--list")
    assert (code, errors) == (1, "'a b' is not an address of a broker (host:port)\n")
    code, _, errors = run(folder / "kafka-topics.sh", "--no such")
    assert errors.startswith("no such is not a recognized")
    assert code == 1


@pytest.mark.parametrize("name", ["kafka-topics.sh", "kafka-storage", "kafka-transactions.sh"])
def test_script_exits_with_kafkas_code_for_a_wrong_command_line(folder: Path, name: str) -> None:
    assert run(folder / name, "--no-such-option")[0] == 1
    script = next(row for row in SCRIPTS if row.name == name.removesuffix(".sh"))
    assert script.command is not None
    with pytest.raises(SystemExit) as end:
        sys.exit(main([script.command, "--no-such-option"]))
    assert end.value.code == 2


@pytest.mark.parametrize("script", [s for s in SCRIPTS if s.command is None], ids=lambda s: s.name)
def test_script_that_is_not_served_names_the_program_that_is(folder: Path, script: object) -> None:
    assert isinstance(script, type(SCRIPTS[0]))
    code, output, errors = run(folder / f"{script.name}.sh", "--help")
    assert (code, output, errors) == (1, "", not_served(script) + "\n")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_file_that_is_not_a_shim_is_kept_and_nothing_is_written(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "zookeeper-shell.sh"
    if kind == "file":
        path.write_text("#!/bin/sh\nexec kafka-run-class.sh\n")
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.mkdir()
    assert main(["shims", str(tmp_path)]) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert capsys.readouterr().err == (
        f"odradek: {path} was not written by `odradek shims`: name another folder, or remove it\n"
    )


def test_shims_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "kafka-topics.sh"
    path.write_text(f"#!/bin/sh\n{MARK}\nexit 7\n")
    assert main(["shims", str(tmp_path)]) == 0
    assert run(path, "--version")[0] == 0


def test_folder_that_cannot_be_made_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["shims", str(tmp_path / "file" / "bin")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code", "output", "error"),
    [
        (["org.apache.kafka.tools.TopicCommand", "--version"], 0, "3.9.2", ""),
        (["kafka.admin.TopicCommand", "--version"], 0, "3.9.2", ""),
        (["-name", "x", "-loggc", "-daemon", "kafka.admin.ConfigCommand", "--version"], 0, "3", ""),
        (["kafka.tools.MirrorMaker"], 1, "", "kafka-mirror-maker: not served by Odradek: run "),
        (["com.example.Main"], 1, "", "odradek run-class: there is no JVM to run com.example.Main"),
        (["--help"], 0, "", "usage: odradek run-class CLASS"),
        ([], 1, "", "usage: odradek run-class CLASS"),
    ],
)
def test_run_class_runs_the_tool_of_a_class_or_names_it(
    words: Sequence[str], code: int, output: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run-class", *words]) == code
    printed = capsys.readouterr()
    assert printed.out.startswith(output)
    assert printed.err.startswith(error)


def test_class_of_the_broker_is_served() -> None:
    script = script_of_class("kafka.Kafka")
    assert script is not None
    assert script.command == "server-start"


def test_start_without_arguments_prints_the_usage_of_the_script(folder: Path) -> None:
    assert run(folder / "kafka-server-start.sh") == (
        1,
        "USAGE: kafka-server-start.sh [-daemon] server.properties [--override property=value]*\n",
        "",
    )


def test_daemon_serves_until_it_is_stopped_by_its_node_id(folder: Path, tmp_path: Path) -> None:
    port, node_id = free_port(), 1_800_000_000 + os.getpid()
    config = tmp_path / "server.properties"
    config.write_text(
        f"broker.id={node_id}\nlisteners=PLAINTEXT://127.0.0.1:{port}\n"
        f"log.dirs={tmp_path / 'data'}\nreserved.broker.max.id={node_id}\n"
    )
    logs = {"LOG_DIR": str(tmp_path / "logs")}
    assert run(folder / "kafka-server-start.sh", "-daemon", str(config), **logs) == (0, "", "")
    output = tmp_path / "logs" / "kafkaServer.out"
    stop = (folder / "kafka-server-stop.sh", f"--node-id={node_id}")
    try:
        wait_until("the broker serves", lambda: "odradek is ready on" in output.read_text())
        for line in (f"[KafkaServer id={node_id}] started", "Kafka Server started", "to RUNNING"):
            assert line in output.read_text()
    finally:
        stopped = run(*stop)
    assert stopped == (0, "", "")
    wait_until("the broker has ended", lambda: run(*stop) == (1, server_stop.NONE + "\n", ""))


@pytest.mark.parametrize(
    ("words", "is_broker"),
    [
        (["/usr/bin/python3", "-I", "-m", "odradek", "start", "a.properties"], True),
        (["/usr/bin/python3", "/opt/odradek/bin/odradek", "server-start", "a.properties"], True),
        (["/usr/bin/python3", "/opt/odradek/bin/odradek", "cluster"], False),
        (["/usr/bin/python3", "odradek", "--kafka-exit-codes", "server-start", "a"], True),
        (["/usr/bin/vim", "odradek", "notes"], False),
        (["java", "kafka.Kafka", "a.properties"], False),
    ],
)
def test_brokers_are_recognized_by_their_command_line(
    tmp_path: Path, words: Sequence[str], is_broker: bool
) -> None:
    process = tmp_path / "proc" / "7"
    process.mkdir(parents=True)
    (process / "cmdline").write_text("\0".join([*words, ""]))
    (process / "cwd").symlink_to(tmp_path)
    (tmp_path / "proc" / "uptime").touch()
    assert bool(server_stop.servers(tmp_path / "proc")) is is_broker


@pytest.mark.parametrize(
    ("arguments", "node_id"),
    [
        (["a.properties"], "5"),
        (["a.properties", "--override", "broker.id=6"], "6"),
        (["--override=node.id=7", "a.properties"], "7"),
        (["--log-level", "WARN", "a.properties"], "5"),
        (["missing.properties"], None),
        ([], None),
    ],
)
def test_node_id_is_that_of_the_command_line_before_that_of_the_file(
    tmp_path: Path, arguments: Sequence[str], node_id: str | None
) -> None:
    (tmp_path / "a.properties").write_text("broker.id=5\n")
    assert server_stop.node_id(server_stop.BrokerProcess(1, tuple(arguments), tmp_path)) == node_id


@pytest.mark.parametrize(
    ("words", "signal", "output", "error"),
    [
        (["--node-id=-77"], "TERM", server_stop.NONE + "\n", ""),
        (["--node-id=-77"], "NOPE", "", "odradek server-stop: SIGNAL=NOPE is not the name of a"),
    ],
)
def test_stop_without_a_broker_to_stop_exits_with_1(
    words: Sequence[str],
    signal: str,
    output: str,
    error: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SIGNAL", signal)
    assert main(["server-stop", *words]) == 1
    printed = capsys.readouterr()
    assert printed.out == output
    assert printed.err.startswith(error)
