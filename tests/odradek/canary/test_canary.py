"""`odradek canary` on three brokers, one of which is killed and comes back."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from odradek.tools.canary.command import TOPIC
from tests.odradek.console_tools import our_command, our_tool, our_tool_here
from tests.support.broker_cluster import broker_cluster
from tests.support.broker_process import odradek_broker

pytestmark = pytest.mark.client
WAIT_S = 120.0


class RunningCanary:
    """A canary in a process, and the lines that it prints."""

    def __init__(self, bootstrap: str, *words: str) -> None:
        command = our_command("canary", ["--bootstrap-server", bootstrap, *words])
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.address = self._lines.get(timeout=WAIT_S).split()[-1]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def wait_for(self, event: str, **fields: object) -> dict[str, Any]:
        """The next event with these fields."""
        while True:
            row: dict[str, Any] = json.loads(self._lines.get(timeout=WAIT_S))
            if row["event"] == event and fields.items() <= row.items():
                return row

    def page(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=WAIT_S) as response:
            return str(response.read().decode())

    def samples(self) -> dict[tuple[str, str], float]:
        """The samples without other labels, by name and broker."""
        return {
            (sample.name, sample.labels["broker"]): sample.value
            for family in text_string_to_metric_families(self.page("/metrics"))
            for sample in family.samples
            if sample.labels.keys() == {"broker"}
        }


@contextmanager
def canary(bootstrap: str, *words: str) -> Iterator[RunningCanary]:
    running = RunningCanary(bootstrap, "--listen", "0", *words)
    try:
        yield running
    finally:
        running.close()


def test_killed_broker_is_not_available_and_recovers(tmp_path: Path) -> None:
    fast = ["--interval-ms", "100", "--timeout-ms", "2000", "--summary-interval-ms", "1000"]
    with (
        broker_cluster(tmp_path, zookeeper_connect=None) as cluster,
        canary(cluster.bootstrap, *fast) as running,
    ):
        for number in (1, 2, 3):
            running.wait_for("summary", broker=number, available=True, availability=1.0)
        victim = 3
        leaders = {index: row.leader_id for index, row in cluster.partitions(TOPIC).items()}
        assert sorted(leaders.values()) == [1, 2, 3]
        before = running.samples()
        cluster.kill(victim)
        lost = running.wait_for("change", broker=victim, available=False)
        assert lost["reason"]
        running.wait_for("summary", broker=1, available=True)
        running.wait_for("summary", broker=2, available=True)
        row = running.wait_for("summary", broker=victim, available=False)
        assert row["availability"] < 1
        assert sum(row["failures"].values()) >= 1
        samples = running.samples()
        assert samples["odradek_canary_available", str(victim)] == 0
        assert samples["odradek_canary_availability_ratio", str(victim)] < 1
        cluster.start(victim)
        change = running.wait_for("change", broker=victim, available=True)
        assert change["failed_probes"] >= 1
        for number in (1, 2, 3):
            running.wait_for("summary", broker=number, available=True)
        after = running.samples()
        for label in ("1", "2", "3"):
            name = "odradek_canary_probes_total"
            assert after[name, label] > before[name, label] > 0
            assert after["odradek_canary_end_to_end_ms_count", label] > 0
        (status,) = [row for row in json.loads(running.page("/status")) if row["broker"] == victim]
        assert status["produce_ms"]["p50"] <= status["end_to_end_ms"]["max"]


def test_canary_ends_after_its_rounds_with_0_when_all_are_available(tmp_path: Path) -> None:
    with odradek_broker(tmp_path) as broker:
        words = ["--bootstrap-server", broker.address, "--rounds", "3", "--interval-ms", "10"]
        result = our_tool("canary", words)
        assert (result.exit_code, result.errors) == (0, "")
        *_, last = map(json.loads, result.output.splitlines())
        # A probe that takes longer than an interval takes the place of two.
        assert 1 <= last["probes"] <= 3
        assert last["failures"] == {}
        # Records are kept for minutes, in segments of a megabyte.
        assert (broker.data / f"{TOPIC}-0").is_dir()


def test_cluster_that_is_away_at_the_start_is_a_failure() -> None:
    result = our_tool_here("canary", ["--bootstrap-server", "127.0.0.1:1"])
    assert result.exit_code == 1
    assert "127.0.0.1:1 cannot be reached" in result.errors
    row = json.loads(result.output)
    assert (row["event"], row["cluster"], row["available"]) == ("change", "127.0.0.1:1", False)


@pytest.mark.parametrize(
    ("words", "exit_code", "reason"),
    [
        (["--rounds", "1"], 2, 'Missing required argument "[bootstrap-server]"'),
        (["--bootstrap-server", "a:1", "--interval-ms", "0"], 2, "--interval-ms: '0' is not"),
        (["--bootstrap-server", "a:1", "--listen", "x:y"], 2, "--listen: 'x:y' is not"),
    ],
)
def test_invalid_command_line_is_refused(words: list[str], exit_code: int, reason: str) -> None:
    result = our_tool_here("canary", words)
    assert (result.exit_code, result.output) == (exit_code, "")
    assert reason in result.errors
