"""Arguments of the tools on librdkafka with bytes that are not UTF-8, given to processes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from odradek.bounded_files import read_rows
from odradek.tools import options
from odradek.tools.options import PATHS
from tests.odradek.console_tools import our_command

pytestmark = pytest.mark.client

WAIT_S = 60.0
WORD = b"a\xffb".decode(errors="surrogateescape")
SERVER = ["--bootstrap-server", "127.0.0.1:1"]
MEASURED = ["--num-records", "1", "--throughput", "1", "--record-size", "1"]
PROPERTIES = ["--producer-props", "bootstrap.servers=127.0.0.1:1"]
SENDING = [*MEASURED, *PROPERTIES]
"""What producer-perf-test requires besides a topic."""
REASON = r"'a\udcffb' cannot be represented in a request: not UTF-8"
VALUE = "the value of '{}' cannot be represented in a request: not UTF-8"


def run(name: str, *arguments: str) -> tuple[int, str, list[str]]:
    """Run a tool to its end: the exit code, stdout, the lines of stderr."""
    done = subprocess.run(
        our_command(name, arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr.splitlines()


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("console-consumer", [*SERVER, "--topic", WORD], f"--topic: {REASON}"),
        ("console-consumer", [*SERVER, "--topic", "t", "--group", WORD], f"--group: {REASON}"),
        ("console-consumer", [*SERVER, "--include", WORD], f"--include: {REASON}"),
        (
            "console-consumer",
            [*SERVER, "--topic", "t", "--consumer-property", f"client.id={WORD}"],
            f"--consumer-property: {VALUE.format('client.id')}",
        ),
        (
            "console-consumer",
            [*SERVER, "--topic", "t", "--property", f"key.separator={WORD}"],
            f"--property: {VALUE.format('key.separator')}",
        ),
        ("console-producer", [*SERVER, "--topic", WORD], f"--topic: {REASON}"),
        (
            "console-producer",
            [*SERVER, "--topic", "t", "--producer-property", f"client.id={WORD}"],
            f"--producer-property: {VALUE.format('client.id')}",
        ),
        (
            "console-producer",
            [*SERVER, "--topic", "t", "--property", f"key.separator={WORD}"],
            f"--property: {VALUE.format('key.separator')}",
        ),
        ("consumer-perf-test", [*SERVER, "--messages", "1", "--topic", WORD], f"--topic: {REASON}"),
        (
            "consumer-perf-test",
            [*SERVER, "--messages", "1", "--topic", "t", "--group", WORD],
            f"--group: {REASON}",
        ),
    ],
)
def test_option_that_is_not_text_is_a_wrong_command_line(
    name: str, arguments: list[str], error: str
) -> None:
    assert run(name, *arguments) == (2, "", [error])


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("producer-perf-test", [*SENDING, "--topic", WORD], f"--topic: {REASON}"),
        (
            "producer-perf-test",
            ["--topic", "t", *SENDING, f"client.id={WORD}"],
            f"--producer-props: {VALUE.format('client.id')}",
        ),
        ("verifiable-producer", [*SERVER, "--topic", WORD], f"--topic: {REASON}"),
        (
            "verifiable-consumer",
            [*SERVER, "--group-id", "g", "--topic", WORD],
            f"--topic: {REASON}",
        ),
        (
            "verifiable-consumer",
            [*SERVER, "--group-id", WORD, "--topic", "t"],
            f"--group-id: {REASON}",
        ),
    ],
)
def test_argument_that_is_not_text_is_an_error_after_the_usage(
    name: str, arguments: list[str], error: str
) -> None:
    exit_code, output, lines = run(name, *arguments)
    assert (exit_code, output) == (2, "")
    assert lines[0].startswith("usage: ")
    assert [line for line in lines if "error: " in line] == lines[-1:]
    assert lines[-1].endswith(f": error: argument {error}")


def test_topic_of_the_latency_tool_that_is_not_text_is_one_line() -> None:
    result = run("e2e-latency", "127.0.0.1:1", WORD, "1", "1", "1")
    assert result == (1, "", [f"topic: {REASON}"])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("console-consumer", [*SERVER, "--topic", "t", "--consumer.config"]),
        ("console-producer", [*SERVER, "--topic", "t", "--producer.config"]),
        ("consumer-perf-test", [*SERVER, "--topic", "t", "--messages", "1", "--consumer.config"]),
        ("producer-perf-test", ["--topic", "t", *SENDING, "--producer.config"]),
        ("verifiable-consumer", [*SERVER, "--topic", "t", "--group-id", "g", "--consumer.config"]),
        ("verifiable-producer", [*SERVER, "--topic", "t", "--producer.config"]),
        ("e2e-latency", ["127.0.0.1:1", "t", "1", "1", "1"]),
    ],
)
def test_file_whose_path_is_not_text_is_read(
    name: str, arguments: list[str], tmp_path: Path
) -> None:
    file = tmp_path / WORD
    file.write_text("security.protocol=bogus\n")
    exit_code, _, lines = run(name, *arguments, str(file))
    assert exit_code == 1
    assert any("bogus" in line.lower() for line in lines)


def test_file_of_metadata_quorum_whose_path_is_not_text_is_read(tmp_path: Path) -> None:
    file = tmp_path / WORD
    file.write_text("security.protocol=bogus\n")
    words = [*SERVER, "--command-config", str(file), "describe", "--status"]
    exit_code, _, lines = run("metadata-quorum", *words)
    assert exit_code == 1
    assert any("bogus" in line.lower() for line in lines)


@pytest.mark.parametrize(
    ("flag", "name"), [("--consumer.config", "group.id"), ("--formatter-config", "key.separator")]
)
def test_lone_surrogate_in_a_file_is_an_error(flag: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / "properties"
    file.write_text(f"{name}=a\\udcffb\n")
    result = run("console-consumer", *SERVER, "--topic", "t", flag, str(file))
    error = f"java.lang.IllegalArgumentException: {file}: {VALUE.format(name)}"
    assert result == (1, "", [f'Exception in thread "main" {error}'])


def test_path_in_a_property_may_have_any_bytes() -> None:
    properties = [f"ssl.truststore.location={WORD}", "security.protocol=bogus"]
    pairs = [word for text in properties for word in ("--consumer-property", text)]
    exit_code, _, lines = run("console-consumer", *SERVER, "--topic", "t", *pairs)
    assert exit_code == 1
    assert any("Invalid value" in line and "security.protocol" in line for line in lines)


def test_options_for_files_have_a_kind_of_path() -> None:
    ends = ("file", "files", ".config", "command-config")
    for tool, name, value, _ in read_rows(options.__file__, "options.tsv"):
        if name.endswith(ends) and value:
            assert value.strip("[]") in PATHS or value in PATHS, f"{tool} --{name}"
