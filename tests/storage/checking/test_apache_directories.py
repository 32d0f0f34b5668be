"""Directories of Apache Kafka: no finding after a clean stop, what recovery does after a kill."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.runtime.overlay_files import OverlayFileSystem
from odradek.runtime.read_only_files import ReadOnlyFileSystem
from odradek.runtime.system_files import SystemFile, SystemFileSystem
from odradek.storage.checking.trial_start import TrialStart
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.log_config import LogConfig
from tests.storage.recovery.test_shared_directory import create_at_last
from tests.support.apache import ApacheBroker, apache_kafka
from tests.support.pauses import pause
from tests.support.zookeeper import zookeeper

pytestmark = pytest.mark.judge

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
WAIT_S = 60.0
NOW_MS = 1_800_000_000_000
OVERRIDES = {
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "100",
    "log.index.interval.bytes": "512",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "14000",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "file.delete.delay.ms": "100",
}


def fill(broker: ApacheBroker) -> None:
    """Plain, compacted and transactional records in every codec, and offsets of a group."""
    for codec in CODECS:
        settings = {"bootstrap.servers": broker.address, "compression.type": codec}
        plain = Producer({**settings, "enable.idempotence": True})
        for number in range(200):
            plain.produce("plain", partition=number % 2, value=b"%0300d" % number)
            if number % 5 == 0:
                plain.flush(30)
        plain.flush(30)
        keyed = Producer(settings)
        for number in range(300):
            keyed.produce("compacted", key=b"%d" % (number % 7), value=b"%0200d" % number)
            if number % 3 == 0:
                keyed.flush(30)
        keyed.flush(30)
        writer = Producer({**settings, "transactional.id": "writer"})
        writer.init_transactions(30)
        for number in range(6):
            writer.begin_transaction()
            for topic in ("transactional", "compacted"):
                writer.produce(topic, key=b"t%d" % number, value=b"%0100d" % number)
            writer.flush(30)
            if number % 2:
                writer.abort_transaction(30)
            else:
                writer.commit_transaction(30)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["plain"])
    assert consumer.consume(50, WAIT_S)
    consumer.commit(asynchronous=False)
    consumer.close()


def create_topics(broker: ApacheBroker) -> None:
    create_at_last(
        AdminClient({"bootstrap.servers": broker.address}),
        [
            NewTopic("plain", 2, 1, config={"segment.bytes": "20000"}),
            NewTopic("compacted", 1, 1, config=COMPACTED),
            NewTopic("transactional", 1, 1),
        ],
    )


def wait_until_cleaned(broker: ApacheBroker) -> None:
    """Until a cleaning is noted, and what it replaced is removed."""
    deadline = monotonic() + WAIT_S
    checkpoint = broker.data / "cleaner-offset-checkpoint"
    while "compacted 0" not in checkpoint.read_text() or any(
        broker.data.glob("compacted-0/*.deleted")
    ):
        assert monotonic() < deadline, checkpoint.read_text()
        pause()


def run(data: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "odradek", "check-log-dirs", "--json", str(data)],
        capture_output=True,
        check=False,
        timeout=WAIT_S,
    )


def check(data: Path) -> tuple[int, dict[str, object]]:
    """Exit code and output of the command."""
    done = run(data)
    assert not done.stderr, done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def start_for_real(data: Path) -> list[str]:
    """Start our storage on the directory; returns its reports."""
    files = SystemFileSystem()
    reports: list[str] = []
    manager = LogManager(
        files,
        [str(data)],
        Descriptors(files, report=lambda event: reports.append(event.text)),
        file_delete_delay_ms=60_000,
    )
    (properties,) = manager.open_directories().values()
    assert properties.cluster_id is not None
    assert properties.broker_id is not None
    manager.claim(broker_id=properties.broker_id, cluster_id=properties.cluster_id, date="")
    manager.load(lambda _: LogConfig(), now_ms=NOW_MS)
    return reports


def test_clean_directory_has_no_finding_and_killed_one_is_repaired_as_the_trial_says(
    tmp_path: Path,
) -> None:
    with zookeeper(tmp_path / "zookeeper") as coordinator:
        with apache_kafka(tmp_path, zookeeper_address=coordinator, overrides=OVERRIDES) as broker:
            create_topics(broker)
            fill(broker)
            wait_until_cleaned(broker)
            refused = run(broker.data)
            assert (refused.returncode, refused.stdout) == (3, b"")
            assert b"is in use by a broker process" in refused.stderr
        data = broker.data
        before = content(data)
        code, printed = check(data)
        assert (code, printed["findings"]) == (0, [])
        assert int(str(printed["batches"])) > 500
        assert content(data) == before

        with apache_kafka(tmp_path, zookeeper_address=coordinator, overrides=OVERRIDES) as broker:
            fill(broker)
            broker.process.kill()
            before = content(data)
            code, printed = check(data)
            assert content(data) == before
            findings = printed["findings"]
            assert isinstance(findings, list)
            assert code == 1, findings
            assert ("start", "there was no clean stop") in [
                (finding["kind"], finding["text"]) for finding in findings
            ]
            assert not printed["lost_bytes"]

            with (tmp_path / "spill").open("ab+", buffering=0) as spill:
                overlay = OverlayFileSystem(
                    ReadOnlyFileSystem(), SystemFile("spill", spill.fileno())
                )
                trial = TrialStart(overlay)
                trial.run([str(data)], lambda _: LogConfig(), now_ms=NOW_MS)
                expected = {
                    name: overlay.read(f"{data}/{name}")
                    for name in content_names(overlay, str(data))
                }
                overlay.close()
            reports = start_for_real(data)
            assert without_times(reports) == without_times([event.text for event in trial.events])
            assert content(data) == expected


def content_names(files: OverlayFileSystem, data: str) -> list[str]:
    """Files of the directory and of its folders."""
    names: list[str] = []
    for name in files.list(data):
        if files.is_directory(f"{data}/{name}"):
            names += [f"{name}/{file_name}" for file_name in files.list(f"{data}/{name}")]
        else:
            names.append(name)
    return names


def without_times(reports: list[str]) -> list[str]:
    return [text for text in reports if " ms" not in text]
