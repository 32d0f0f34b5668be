"""The command on the directory of a real broker: running, stopped, killed, damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.storage.checking import directories_check
from odradek.tools import check_log_dirs
from tests.cluster.stored_logs import assert_undamaged
from tests.controller.coordination.test_state_files import FOLDER, grow
from tests.support.broker_process import BrokerProcess
from tests.support.processes import ProcessFailed

TIMEOUT_S = 90.0
CLEAN, REPAIRED, WRONG_USAGE, NOT_CHECKED, DAMAGED = range(5)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def check(
    *words: str | Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "odradek", "check-log-dirs", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, **(environment or {})},
    )


def fill(address: str) -> None:
    """Idempotent batches of every codec."""
    for codec in CODECS:
        producer = Producer(
            {"bootstrap.servers": address, "enable.idempotence": True, "compression.type": codec}
        )
        for number in range(40):
            producer.produce("plain", partition=0, value=b"%0200d" % number)
            producer.flush(30)


def listing(folder: Path) -> list[tuple[str, int, int]]:
    """Names, sizes and times of change of everything, the folder itself included."""
    paths = [folder, *sorted(folder.rglob("*"))]
    return [(str(path), (stat := path.stat()).st_size, stat.st_mtime_ns) for path in paths]


def flip_record(data: Path) -> None:
    log = data / "plain-0" / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)


def test_running_is_refused_stopped_is_clean_killed_is_repaired_and_damage_is_named(
    tmp_path: Path,
) -> None:
    broker = BrokerProcess(tmp_path / "broker-1", overrides={"num.partitions": "2"})
    broker.start()
    try:
        fill(broker.address)
        refused = check(broker.data)
        assert refused.returncode == NOT_CHECKED
        assert refused.stderr == f"odradek: {broker.data} is in use by a broker process\n"
        fill(broker.address)
        assert broker.stop() == 0

        before = listing(broker.data)
        clean = check(broker.data)
        assert (clean.returncode, clean.stderr) == (CLEAN, "")
        assert len(clean.stdout.splitlines()) == 1, clean.stdout
        assert "0 damaged, 0 to be repaired, 0 notes" in clean.stdout
        printed = json.loads(check("--json", broker.data).stdout)
        assert (printed["exit_code"], printed["findings"], printed["logs"]) == (CLEAN, [], 2)
        assert printed["batches"] >= 2 * 40 * len(CODECS)
        assert listing(broker.data) == before

        broker.start()
        fill(broker.address)
        broker.kill()
        killed = check(broker.data)
        assert killed.returncode == REPAIRED, killed.stdout
        assert "there was no clean stop - a start: checks 2 logs" in killed.stdout

        assert_undamaged(tmp_path)
        flip_record(broker.data)
        with pytest.raises(AssertionError, match="the checksum of the batch there differs"):
            assert_undamaged(tmp_path)
        before = listing(broker.data)
        damaged = check("--json", broker.data)
        assert damaged.returncode == DAMAGED
        (batch,) = [
            finding
            for finding in json.loads(damaged.stdout)["findings"]
            if finding["kind"] == "batch"
        ]
        assert (batch["severity"], batch["partition"]) == ("damage", "plain-0")
        assert listing(broker.data) == before
    finally:
        broker.close()


def test_directory_that_may_not_be_written_is_checked(tmp_path: Path) -> None:
    (tmp_path / "plain-0").mkdir()
    (tmp_path / ".lock").touch()
    for path in (tmp_path / ".lock", tmp_path / "plain-0", tmp_path):
        os.chmod(path, 0o555)
    result = check(tmp_path)
    assert result.returncode == REPAIRED, result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "plain-0"]


def test_missing_directory_and_wrong_words_are_not_checked(tmp_path: Path) -> None:
    missing = check(tmp_path / "no")
    assert missing.returncode == NOT_CHECKED
    assert missing.stderr == f"odradek: there is no directory {tmp_path / 'no'}\n"
    assert check("--jsn", tmp_path).returncode == WRONG_USAGE
    assert check("").returncode == WRONG_USAGE
    assert check().returncode == WRONG_USAGE


def test_names_that_are_no_text_are_printed(tmp_path: Path) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9-0")
    result = check(tmp_path, environment={"PYTHONIOENCODING": "utf-8:strict"})
    assert result.returncode == CLEAN, result
    assert "caf\\udce9-0" in result.stdout, result


def test_check_that_fails_has_checked_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("a flaw of the check")

    monkeypatch.setattr(directories_check, "check_directories", fail)
    assert check_log_dirs.main([str(tmp_path)]) == NOT_CHECKED


def test_directory_of_another_cluster_than_the_coordination_files_is_damage(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker-1").start()
    try:
        assert broker.stop() == 0
        path = broker.data / "meta.properties"
        (line,) = [line for line in path.read_text().splitlines() if line.startswith("cluster.id=")]
        path.write_text(path.read_text().replace(line, "cluster.id=kVSgfurUQFGGpHMTBqBPiw"))
        result = check(broker.data)
        assert result.returncode == DAMAGED, result.stdout
        assert f"damage: {path}: belongs to cluster 'kVSgfurUQFGGpHMTBqBPiw'" in result.stdout
        with pytest.raises(ProcessFailed, match="belongs to cluster 'kVSgfurUQFGGpHMTBqBPiw'"):
            broker.start()
    finally:
        broker.close()


def test_damaged_coordination_files_are_named(tmp_path: Path) -> None:
    (tmp_path / f"coordination.snapshot.{5:020d}").write_bytes(b"\x00" * 40)
    result = check(tmp_path)
    assert result.returncode == DAMAGED, result.stdout
    assert "coordination files: " in result.stdout
    assert "odradek recover-metadata" in result.stdout


def test_damaged_coordination_file_that_others_replace_is_named(tmp_path: Path) -> None:
    files = MemoryFileSystem()
    grow(files, writes=20, entries_max=1_000, runs=3)
    for name in files.list(FOLDER):
        (tmp_path / name).write_bytes(files.read(f"{FOLDER}/{name}"))
    assert check(tmp_path).returncode == CLEAN
    coordination_files = sorted(tmp_path.glob("coordination.*.*"))
    assert len(coordination_files) >= 3
    for damaged in (*coordination_files[:1], sorted(tmp_path.glob("coordination.snapshot.*"))[-1]):
        content = damaged.read_bytes()
        middle = len(content) // 2
        damaged.write_bytes(content[:middle] + b"?" + content[middle + 1 :])
        checked = check(tmp_path)
        assert checked.returncode == REPAIRED, checked.stdout
        assert f"coordination files: {damaged}" in checked.stdout
        damaged.write_bytes(content)
