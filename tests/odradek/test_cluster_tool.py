"""Command lines of `odradek cluster-tool` that end before a cluster is asked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from odradek.command import main
from tests.support.ports import free_port


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "the following arguments are required: command"),
        (["nope"], "invalid choice: 'nope' (choose from 'cluster-id', 'unregister')"),
        (["cluster-id"], "--bootstrap-server/-b"),
        (["unregister", "-b", "127.0.0.1:1"], "--id/-i"),
        (
            ["unregister", "-b", "127.0.0.1:1", "--id", "x"],
            "argument --id/-i: could not convert 'x' to Integer (For input string: \"x\")",
        ),
        (["cluster-id", "-b", "127.0.0.1:1", "-C", "127.0.0.1:2"], "arguments: -C 127.0.0.1:2"),
    ],
)
def test_wrong_usage_exits_with_2(
    words: Sequence[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster-tool", *words]) == 2
    assert error in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["cluster-id", "-b", "127.0.0.1:{port}"], "127.0.0.1:{port} cannot be reached"),
        (["unregister", "-b", "127.0.0.1:{port}", "-i", "1"], "127.0.0.1:{port} cannot be reached"),
        (["cluster-id", "-b", "nowhere"], "'nowhere' is not an address of a broker (host:port)"),
        (["cluster-id", "-b", "127.0.0.1:{port}", "-c", "/nowhere"], "/nowhere cannot be read: "),
    ],
)
def test_failure_is_one_line_and_exits_with_1(
    words: Sequence[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    assert main(["cluster-tool", *(word.format(port=port) for word in words)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(error.format(port=port))
    assert printed.err.count("\n") == 1
