"""The demo from end to end, shortened: a broker, a pipeline, payments, and the page."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.mirroring import until
from tests.support import maven
from tests.support.prepare import SPARK_VERSION
from tests.support.processes import LoggedProcess

TIMEOUT_S = 800
RATE = 400
SECONDS = 12


def of_folder(folder: Path) -> list[str]:
    """Command lines of running processes that contain a folder."""
    commands = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in command:
                commands.append(command)
    return commands


def test_stopped_demo_ends_its_processes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "odradek.demo.pipeline", "--folder", str(tmp_path / "demo")]
    command += ["--jars", str(maven.spark_connectors(SPARK_VERSION))]
    with LoggedProcess(
        command, log=tmp_path / "demo.log", environment={"PYTHONUNBUFFERED": "1"}
    ) as demo:
        demo.wait_for_line("^Spark starts", timeout_s=TIMEOUT_S)
        until(
            lambda: len(of_folder(tmp_path / "demo")) >= 3,
            "the demo, its broker and its pipeline run",
        )
        assert demo.stop(timeout_s=TIMEOUT_S) == 128 + signal.SIGTERM
        assert demo.lines()[-1] == "stopped"
    assert of_folder(tmp_path / "demo") == []


@pytest.mark.slow
def test_demo_finds_the_planted_cases(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "odradek.demo.pipeline",
        "--folder",
        str(tmp_path),
        "--seed",
        "2",
    ]
    command += ["--rate", str(RATE), "--seconds", str(SECONDS)]
    command += ["--jars", str(maven.spark_connectors(SPARK_VERSION))]
    run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == "", "clients log nothing"
    assert f"payments: {RATE * SECONDS:,} sent, {RATE * SECONDS:,} landed" in run.stdout
    print(run.stdout)
    odd = re.search(r"odd amounts: (\d+) planted, .* precision (\S+), recall 1.00", run.stdout)
    assert odd is not None, "the exit code is 0 when all that was planted was found"
    assert int(odd[1]) > 0
    assert float(odd[2]) >= 0.75
    (page,) = tmp_path.glob("*/report.html")
    text = page.read_text(encoding="utf-8")
    whole = f"<td>{RATE * SECONDS:,}</td><td>{RATE * SECONDS:,}</td><td><span class=good>"
    assert text.count(whole) == 2
    assert "class=bad" not in text
    progress = (page.parent / "progress.jsonl").read_text().splitlines()
    states = {line["name"]: line["state"] for line in map(json.loads, progress)}
    queries = ("parsed_rejects", "landed", "merchants", "hot_merchants", "alarms")
    assert states == dict.fromkeys(queries, "stopped"), "the demo ended them: none has failed"
