"""Shells complete the command line of `odradek` by the scripts that it prints."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from odradek.command import SUBCOMMANDS, main
from odradek.completion import SHELLS

TIMEOUT_S = 60.0


@pytest.mark.parametrize("shell", SHELLS)
def test_script_of_each_shell_names_every_command(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert not [name for name in SUBCOMMANDS if name not in script]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script of bash, in a file."""
    path = tmp_path_factory.mktemp("completion") / "odradek.bash"
    with path.open("w") as file, redirect_stdout(file):
        main(["completion", "bash"])
    return path


def completed(script: Path, *words: str, folder: Path | None = None) -> list[str]:
    """The words that bash offers for the last word."""
    line = ["odradek", *words]
    program = (
        f"source {shlex.quote(str(script))}; COMP_WORDS=({shlex.join(line)}); "
        f'COMP_CWORD={len(line) - 1}; _shtab_odradek; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", program],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=folder,
        check=True,
    )
    return done.stdout.split()


def test_bash_completes_every_command(script: Path) -> None:
    assert set(SUBCOMMANDS) <= set(completed(script, ""))
    assert completed(script, "pip") == ["pipeline"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["pipeline", "pre"], ["preview"]),
        (["pipeline", "run", "--met"], ["--metrics-port"]),
        (["pipeline", "run", "--mode", "b"], ["batch"]),
        (["start", "--log-le"], ["--log-level"]),
        (["start", "--log-level", "WA"], ["WARN"]),
        (["consumer-groups", "--all-g"], ["--all-groups"]),
        (["topics", "--repl"], ["--replication-factor", "--replica-assignment"]),
        (["transactions", "find-hanging", "--br"], ["--broker-id"]),
        (["completion", "z"], ["zsh"]),
    ],
)
def test_bash_completes_options_and_values(
    script: Path, words: Sequence[str], offered: list[str]
) -> None:
    assert sorted(completed(script, *words)) == sorted(offered)


def test_bash_completes_files(script: Path, tmp_path: Path) -> None:
    (tmp_path / "orders.toml").touch()
    assert completed(script, "pipeline", "check", "ord", folder=tmp_path) == ["orders.toml"]
