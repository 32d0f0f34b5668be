"""`odradek dump-log` and Apache Kafka's DumpLogSegments print the same of the same files.

The lines are recorded in `dump_log_conversation_3_9_2.txt`, by Apache's tool.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from odradek.command import main
from tests.odradek.console_tools import ApacheTools
from tests.odradek.dump_log_conversation import (
    RECORDED,
    TOOL,
    our_tool,
    play,
    recorded_in_our_words,
)
from tests.odradek.dump_log_scene import NAME, make_scene
from tests.odradek.transactions_conversation_scene import SETTINGS
from tests.odradek.transactions_conversation_scene import make_scene as make_transactions
from tests.support.broker_process import odradek_broker


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files."""
    folder = tmp_path_factory.mktemp("scene")
    make_scene(folder)
    return folder


def test_our_tool_prints_the_recorded_lines(scene: Path) -> None:
    before = {path: path.read_bytes() for path in scene.rglob("*") if path.is_file()}
    assert play(our_tool, scene).splitlines() == recorded_in_our_words().splitlines()
    after = {path: path.read_bytes() for path in scene.rglob("*") if path.is_file()}
    assert before == after


@pytest.mark.judge
def test_apaches_tool_prints_the_recorded_lines_and_those_of_our_tool_on_files_of_our_broker(
    silent_apache_tools: ApacheTools, tmp_path: Path
) -> None:
    tools = silent_apache_tools
    make_scene(tmp_path / "scene")
    assert play(lambda words: tools(TOOL, words), tmp_path / "scene") == RECORDED.read_text()
    with odradek_broker(tmp_path, overrides=SETTINGS) as broker:
        make_transactions(broker.address)
        # While the broker runs, then as it leaves them.
        for is_stopped in (False, True):
            if is_stopped:
                assert broker.stop() == 0
            files = sorted(broker.data.glob("*-*/0*"))
            suffixes = {path.suffix for path in files}
            assert {".log", ".index", ".timeindex"} <= suffixes
            assert not is_stopped or {".snapshot", ".txnindex"} <= suffixes
            for option in ("deep-iteration", "print-data-log", "index-sanity-check"):
                words = ["--files", ",".join(map(str, files)), f"--{option}"]
                ours, apaches = our_tool(words), tools(TOOL, words)
                assert ours.output.splitlines() == apaches.output.splitlines()
                assert (ours.errors, ours.exit_code) == (apaches.errors, apaches.exit_code)
            state = [str(path) for path in files if path.parent.name.startswith("__transaction")]
            words = ["--files", ",".join(state), "--transaction-log-decoder"]
            ours, apaches = our_tool(words), tools(TOOL, words)
            assert "transactionalId=ongoing-transaction payload: " in ours.output
            assert partitions_sorted(ours.output) == partitions_sorted(apaches.output)


def partitions_sorted(text: str) -> str:
    """Apache's tool prints the partitions of a transaction in the order of a hash set."""
    return re.sub(
        r"(?<=partitions=\[)[^\]]*", lambda row: ",".join(sorted(row[0].split(","))), text
    )


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["--cluster-metadata-decoder"], 1, "--cluster-metadata-decoder is not served: use "),
        (["--remote-log-metadata-decoder"], 1, "--remote-log-metadata-decoder is not served: "),
        (["--max-bytes", "x"], 2, "Cannot parse argument 'x' of option max-bytes"),
        (["--max-message-size", "9" * 20], 2, f"Cannot parse argument '{'9' * 20}' of option max"),
        (["--value-decoder-class", "a.B"], 1, "a.B is not one of the decoders StringDecoder, Int"),
        (
            ["--key-decoder-class", "org.apache.kafka.tools.api.DefaultDecoder"],
            1,
            "org.apache.kafka.tools.api.DefaultDecoder is not one of the decoders StringDecoder, ",
        ),
    ],
)
def test_option_that_is_not_served_is_one_line(
    scene: Path, words: Sequence[str], code: int, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = str(scene / "golden" / "plain-0" / f"{NAME}.log")
    assert main(["dump-log", "--files", files, *words]) == code
    printed = capsys.readouterr().err
    assert printed.startswith(error)
    assert printed.count("\n") == 1


def test_missing_index_beside_a_time_index_is_an_error_and_is_not_created(
    tmp_path: Path, scene: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for suffix in (".log", ".timeindex"):
        name = NAME + suffix
        (tmp_path / name).write_bytes((scene / "golden" / "idempotent-0" / name).read_bytes())
    assert main(["dump-log", "--files", str(tmp_path / f"{NAME}.timeindex")]) == 1
    assert capsys.readouterr().err == (
        f"odradek: {tmp_path / NAME}.index: No such file or directory\n"
    )
    assert len(list(tmp_path.iterdir())) == 2
