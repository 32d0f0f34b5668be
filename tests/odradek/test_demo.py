"""`odradek demo isr-cut`: its verdict, figures that are wrong, and the network that it cuts."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from dataclasses import replace
from os import kill
from pathlib import Path

import pytest

from odradek.demo.claims import Measured, claims_of
from odradek.demo.command import INTERRUPTED, build_parser
from odradek.demo.network import HOST, Network
from odradek.tools.console.library import MISSING
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess

WAIT_S = 240.0
LAG_MS = 10_000
"""acks=1 may wait for half of it."""
PYTHON = [sys.executable, "-I", "-m"]
WITHOUT_LIBRARY = """
import sys
sys.modules["confluent_kafka"] = None
from odradek.command import main
sys.exit(main(sys.argv[1:]))
"""
AS_PROMISED = Measured(
    lag_ms=10_000,
    wait_all_ms=12_000,
    wait_leader_ms=100,
    wait_none_ms=100,
    alone_after_ms=11_000,
    errors_alone={"NOT_ENOUGH_REPLICAS": 20, "REQUEST_TIMED_OUT": 1},
    acknowledged_alone=0,
    acknowledged_again=20,
    is_complete=True,
    acknowledged=1_000,
    lost=0,
)


def test_isr_cut_prints_offsets_while_the_network_is_cut_and_passes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    words = ("demo", "isr-cut", "--lag-ms", str(LAG_MS), "--data", str(data))
    done = subprocess.run(
        [*PYTHON, "odradek", *words], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1]) == (0, "PASS"), done.stdout + done.stderr
    seen = [
        (
            match["network"],
            match["isr"],
            int(match["hw"]),
            [int(end) for end in match["ends"].split(":")],
        )
        for line in lines
        if (
            match := re.search(
                r"network (?P<network>\w+) +ISR (?P<isr>\S+) +HW +(?P<hw>\d+) +LEO 0:(?P<ends>\S+)",
                line,
            )
        )
    ]
    waiting = [row for row in seen if row[:2] == ("cut", "0,1,2")]
    alone = [row for row in seen if row[:2] == ("cut", "0")]
    assert waiting[-1][2] < waiting[-1][3][0], "the high watermark waits for the followers"
    assert alone[-1][2] > waiting[-1][2], "and rises when they are out of sync"
    assert seen[0][:2] == seen[-1][:2] == ("whole", "0,1,2")
    assert any("min.insync=2: " in line and " NOT_ENOUGH_REPLICAS " in line for line in lines)
    log = (data / "broker-0.log").read_text()
    assert "records-0: shrinking ISR from 0,1,2 to 0" in log


def test_signal_ends_the_demo_and_its_brokers(tmp_path: Path) -> None:
    words = ("odradek", "demo", "isr-cut", "--data", str(tmp_path / "data"))
    process = LoggedProcess([*PYTHON, *words], log=tmp_path / "demo.log", folder=tmp_path)
    try:
        process.wait_for_line("network whole", timeout_s=WAIT_S)
        kill(process.pid, signal.SIGINT)
        assert process.wait(timeout_s=WAIT_S) == INTERRUPTED
    finally:
        process.kill()
    assert (tmp_path / "data" / "broker-0" / ".kafka_cleanshutdown").exists()


def test_missing_library_is_reported_in_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBRARY, "demo", "isr-cut"],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"odradek demo: {MISSING}\n"


def test_file_in_place_of_the_folder_of_data_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    done = subprocess.run(
        [sys.executable, "-I", "-m", "odradek", "demo", "isr-cut", "--data", str(file)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"odradek demo: {file}: File exists\n"


@pytest.mark.parametrize("words", [[], ["nope"], ["isr-cut", "--lag-ms", "10"]])
def test_wrong_arguments_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        build_parser().parse_args(words)
    assert refused.value.code == 2


def test_figures_as_promised_pass() -> None:
    assert all(claim.holds for claim in claims_of(AS_PROMISED))


@pytest.mark.parametrize(
    "wrong",
    [
        {"wait_all_ms": 3_000},
        {"wait_all_ms": 40_000},
        {"wait_leader_ms": 6_000},
        {"wait_none_ms": 6_000},
        {"alone_after_ms": None},
        {"errors_alone": {"REQUEST_TIMED_OUT": 20}},
        {"acknowledged_alone": 1},
        {"acknowledged_again": 0},
        {"is_complete": False},
        {"acknowledged": 0},
        {"lost": 1},
    ],
)
def test_each_figure_that_is_wrong_fails_one_claim(wrong: dict[str, object]) -> None:
    claims = claims_of(replace(AS_PROMISED, **wrong))  # type: ignore[arg-type]
    assert [claim.holds for claim in claims].count(False) == 1


def test_network_that_is_cut_keeps_bytes_until_it_is_joined() -> None:
    async def scenario() -> None:
        echoed = asyncio.Event()

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(100):
                echoed.set()
                writer.write(data.upper())
            writer.close()

        server = await asyncio.start_server(echo, HOST, 0)
        target = server.sockets[0].getsockname()[1]
        network, port = Network(), free_port()
        await network.open(port, target)
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"one")
        assert await reader.read(100) == b"ONE"

        network.cut()
        echoed.clear()
        writer.write(b"two")
        late_reader, late_writer = await asyncio.open_connection(HOST, port)
        late_writer.write(b"three")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(echoed.wait(), 0.5)
        network.join()
        assert await reader.read(100) == b"TWO"
        assert await late_reader.read(100) == b"THREE"

        # The end of one side is the end of the other.
        writer.close()
        late_writer.close()
        await network.close()
        server.close()

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))
