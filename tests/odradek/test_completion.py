"""Shells complete the command line of `odradek` by the scripts that it prints."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from docs.generate import completion
from odradek.command import SUBCOMMANDS, main
from odradek.tools.completion.command import SHELLS

TIMEOUT_S = 60.0


@pytest.mark.parametrize("shell", SHELLS)
def test_printed_script_is_the_one_that_the_parsers_make(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == completion.render(shell)


def completed(*words: str, folder: Path | None = None) -> list[str]:
    """What bash offers for the last word."""
    script = completion.FOLDER / "odradek.bash"
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


def test_bash_completes_every_command() -> None:
    assert set(SUBCOMMANDS) <= set(completed(""))
    assert completed("pip") == ["pipeline"]


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
def test_bash_completes_options_and_values(words: Sequence[str], offered: list[str]) -> None:
    assert sorted(completed(*words)) == sorted(offered)


def test_bash_completes_files(tmp_path: Path) -> None:
    (tmp_path / "orders.toml").touch()
    assert completed("pipeline", "check", "ord", folder=tmp_path) == ["orders.toml"]
