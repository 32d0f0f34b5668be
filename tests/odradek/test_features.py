"""`odradek features` on a broker."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout

import pytest

from odradek.tools import features
from tests.support.broker_process import odradek_broker


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with odradek_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.address


def run(address: str, *arguments: str) -> tuple[int, str]:
    """The exit code, and what was printed."""
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = features.main(["--bootstrap-server", address, *arguments])
    return code, output.getvalue()


def described(level: int, epoch: int) -> str:
    return (
        "Feature: transaction.version\tSupportedMinVersion: 1\tSupportedMaxVersion: 2\t"
        f"FinalizedVersionLevel: {level}\tEpoch: {epoch}\n"
    )


def test_level_is_finalized_lowered_and_removed(address: str) -> None:
    name = "transaction.version"
    assert run(address, "describe") == (0, described(0, 0))
    dry = run(address, "upgrade", "--feature", f"{name}=2", "--dry-run")
    assert dry == (0, f"{name} can be upgraded to 2.\n")
    assert run(address, "describe") == (0, described(0, 0))
    done = run(address, "upgrade", "--feature", f"{name}=2")
    assert done == (0, f"{name} was upgraded to 2.\n")
    assert run(address, "describe") == (0, described(2, 1))
    done = run(address, "downgrade", "--feature", f"{name}=1")
    assert done == (0, f"{name} was downgraded to 1.\n")
    assert run(address, "disable", "--feature", name) == (0, f"{name} was disabled.\n")
    assert run(address, "describe") == (0, described(0, 3))


def test_refused_update_exits_with_1_and_says_why(address: str) -> None:
    code, text = run(address, "upgrade", "--feature", "other=1")
    assert code == 1
    assert text == (
        "Could not upgrade other to 1. Could not apply finalized feature update because the "
        "provided feature is not supported.\n1 out of 1 operation(s) failed.\n"
    )


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["upgrade"], 1, "You must specify at least one feature to upgrade"),
        (["upgrade", "--feature", "a"], 1, "equals sign not found"),
        (["upgrade", "--feature", "a=x"], 1, "unable to parse x as a short"),
        (["disable", "--feature", "a", "--feature", "a"], 1, "more than once"),
        (["other"], 2, "invalid choice"),
        (["--help"], 0, "feature flags"),
    ],
)
def test_command_line_that_is_wrong_is_refused(words: list[str], code: int, text: str) -> None:
    exit_code, printed = run("localhost:1", *words)
    assert exit_code == code
    assert text in printed
