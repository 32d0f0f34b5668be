"""Files that a pipeline reads have bounds, and one line each says so."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.pipeline.spec.bounded_files import DESCRIPTOR_BYTES_MAX, read_bytes, read_text
from odradek.pipeline.spec.load import load
from odradek.pipeline.spec.problems import PROBLEMS_MAX, SpecError

HEAD = '[pipeline]\nname = "p"\ncheckpoint = "state"\n'
MEMORY_BYTES = 1 << 30
TIMEOUT_S = 300.0
SOURCE = '[sources.a]\nkind = "rate"\nrows_per_second = 1\n'
SINK = '[sinks.o]\nkind = "console"\nfrom = "s"\n'
FILES = {
    "included": 'include = ["{path}"]\n' + HEAD,
    "secret": HEAD + '[clusters.c.options]\n"sasl.password" = {{ secret_file = "{path}" }}\n',
    "query": HEAD + SOURCE + '[steps.s]\nkind = "sql"\nfile = "{path}"\n' + SINK,
    "descriptor": HEAD
    + SOURCE
    + '[steps.s]\nkind = "parse"\nfrom = "a"\nformat = "protobuf"\n'
    + 'descriptor = "{path}"\nmessage = "M"\n'
    + SINK,
}


def check(path: Path) -> subprocess.CompletedProcess[str]:
    """`odradek pipeline check` with little memory."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))

    return subprocess.run(
        [sys.executable, "-I", "-m", "odradek", "pipeline", "check", str(path)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        preexec_fn=limit,
    )


@pytest.mark.parametrize("kind", FILES)
def test_device_without_an_end_is_refused_with_one_line(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(FILES[kind].format(path="/dev/zero"))
    done = check(path)
    assert done.returncode == 2
    assert "more than" in done.stderr
    assert "Traceback" not in done.stderr


def test_pipeline_file_without_an_end_is_refused() -> None:
    done = check(Path("/dev/zero"))
    assert done.returncode == 2
    assert done.stderr.strip().endswith("bytes")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("9" * 100_000, "a number has too many digits"),
        ("9" * 100, "an integer has more than 64 bits"),
        ("[" * 3_000, "more than 100 levels deep"),
        ('"\\u0000"', "an unknown key"),
        ("1e999", "an unknown key"),
        ('"\\ud800"', "not TOML"),
    ],
)
def test_value_that_no_parser_takes_is_refused(value: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(f"{HEAD}a = {value}\n")
    with pytest.raises(SpecError, match=message) as error:
        load(path)
    assert len(str(error.value)) < 1_000


@pytest.mark.parametrize(
    "line",
    ["[unknown{number}]\na = 1\n", '[sinks.s{number}]\nkind = "none"\n', "sinks.t{number} = 1\n"],
    ids=["tables", "kinds", "types"],
)
def test_many_errors_are_folded(line: str, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    lines = [line.format(number=number) for number in range(5_000)]
    path.write_text("".join([*lines, HEAD] if line.startswith("sinks.") else [HEAD, *lines]))
    with pytest.raises(SpecError) as error:
        load(path)
    assert len(error.value.problems) == PROBLEMS_MAX
    assert re.fullmatch("and 4,90[0-9] more errors", str(error.value).splitlines()[-1])


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_name_that_no_file_can_have_is_an_error_of_the_file(name: str, tmp_path: Path) -> None:
    for read in (read_bytes, read_text):
        with pytest.raises(OSError, match="Invalid argument"):
            read(tmp_path / name)


def test_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for read in (read_bytes, read_text, load):
        with pytest.raises(OSError, match="a named pipe, not a file"):
            read(path)


def test_file_at_its_bound_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1_000)
    assert len(read_bytes(path, 1_000)) == 1_000
    with pytest.raises(OSError, match="more than 999 bytes"):
        read_bytes(path, 999)
    assert DESCRIPTOR_BYTES_MAX > 1_000
