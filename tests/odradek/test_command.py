from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from odradek import command
from tests.odradek.scripted_broker import scripted_broker
from tests.support.ports import free_port

ODRADEK = [sys.executable, "-I", "-m", "odradek"]
TIMEOUT_S = 90.0


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it."""
    return subprocess.run(
        [*ODRADEK, *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_names_every_subcommand(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([word]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    for name, (_, meaning) in command.SUBCOMMANDS.items():
        assert f"{name} " in printed.out
        assert meaning in printed.out


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_version_line_has_the_versions_of_package_and_kafka(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([word]) == 0
    assert re.fullmatch(
        r"odradek \d+\.\d+\.\d+ \(Apache Kafka 3\.9\.2\)\n", capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("words", "first_line"),
    [
        ([], "usage: odradek COMMAND [ARGUMENT...]"),
        (["topisc"], "odradek: there is no command 'topisc'; did you mean topics?"),
        (["topcs", "--list"], "odradek: there is no command 'topcs'; did you mean topics?"),
        (
            ["kafka-log-dirs.sh"],
            "odradek: there is no command 'kafka-log-dirs.sh'; did you mean log-dirs?",
        ),
        (["it's"], "odradek: there is no command 'it's'"),
        (["--verbose"], "odradek: there is no command '--verbose'"),
    ],
)
def test_unknown_subcommand_is_wrong_usage(
    words: Sequence[str], first_line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[0] == first_line
    assert "topics" in printed.err


def test_ctrl_c_exits_with_130_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: Sequence[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("odradek.tools.topics.command.main", interrupted)
    assert command.main(["topics", "--list"]) == 130
    assert capsys.readouterr() == ("", "")


def test_exit_codes_and_streams_reach_the_shell() -> None:
    done = run("topics", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, "3.9.2\n", "")
    done = run("topics", "--list")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "--bootstrap-server must be specified\n"
    address = f"127.0.0.1:{free_port()}"
    done = run("topics", "--bootstrap-server", address, "--list")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (
        f"Error while executing topic command : {address} cannot be reached: Connection refused\n"
    )


@pytest.mark.parametrize(("words", "exit_code"), [([], 2), (["--help"], 1)])
def test_help_of_topics_is_printed_on_stderr_as_in_kafka(words: list[str], exit_code: int) -> None:
    done = run("topics", *words)
    assert (done.returncode, done.stdout) == (exit_code, "")
    assert "\n--replica-assignment <brokers>" in done.stderr


@pytest.mark.parametrize("command_name", ["start", "recover-metadata"])
def test_override_without_equals_sign_is_wrong_usage(command_name: str) -> None:
    done = run(command_name, "--override", "num.partitions")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Invalid override num.partitions" in done.stderr


def test_closed_stdout_is_not_an_error() -> None:
    with scripted_broker({}) as broker:
        child = subprocess.Popen(
            [*ODRADEK, "topics", "--bootstrap-server", broker.bootstrap, "--list"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        with child.stderr as errors:
            assert errors.read() == b""
        assert child.wait(TIMEOUT_S) == 0


@pytest.mark.parametrize(
    ("words", "stderr"),
    [
        (("--version",), ""),
        (("--help",), ""),
        (("storage", "random-uuid"), ""),
        (("completion", "bash"), ""),
        (("topics", "--list"), "--bootstrap-server must be specified\n"),
    ],
)
def test_stream_that_the_caller_has_closed_takes_nothing_of_another(
    words: tuple[str, ...], stderr: str
) -> None:
    for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
        done = subprocess.run(
            ["bash", "-c", f'"$@" {closed}', "bash", *ODRADEK, *words],
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == (2 if stderr else 0)
        if closed == ">&-":
            assert (done.stdout, done.stderr) == ("", stderr)
        elif stderr:
            assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("--version",), 1),
        (("--help",), 1),
        (("completion", "bash"), 1),
        (("container-config", "KAFKA_BROKER_ID=1"), 1),
        (("storage", "random-uuid"), 1),
        (("check-log-dirs", "DIR"), 3),
    ],
)
def test_full_disk_of_stdout_is_one_line(
    words: tuple[str, ...], exit_code: int, tmp_path: Path
) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*ODRADEK, *(str(tmp_path) if word == "DIR" else word for word in words)],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (exit_code, "odradek: No space left on device\n")
