"""Apache Kafka's cleaner and ours, over the same histories: batch by batch the same is left."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.record import decode_records
from odradek.runtime.system_files import SystemFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.storage.compaction.job import CleaningResult
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.log.log import Log, open_log
from odradek.storage.log.reading import aborted_transactions
from odradek.storage.log_config import LogConfig
from tests.storage.compaction.cleaning import batches_of, clean_log, uncleanable_offset
from tests.storage.compaction.workload import Workload, apply
from tests.support.apache import DUMP_LOG_TOOL, program_command, run_tool
from tests.support.logs import NOW_MS

pytestmark = pytest.mark.judge

CONFIG = LogConfig(
    segment_bytes=2_000, index_interval_bytes=300, cleanup_delete=False, cleanup_compact=True
)
RETENTION_MS = 10_000
HISTORIES = 6
ROUNDS = 4
STEPS = 60
COMPLAINTS = re.compile(r"mismatch|isvalid: false|out of order|exception|not found", re.IGNORECASE)


@dataclass
class Judge:
    """Apache Kafka's cleaner, waiting for work."""

    process: subprocess.Popen[str]

    def clean(self, folder: Path, first_dirty_offset: int, uncleanable: int, now_ms: int) -> int:
        """Clean a log that is not open; returns the end offset of the cleaning."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(
            f"{folder} {first_dirty_offset} {uncleanable} {now_ms} "
            f"segment.bytes={CONFIG.segment_bytes} "
            f"index.interval.bytes={CONFIG.index_interval_bytes} "
            f"delete.retention.ms={RETENTION_MS}\n"
        )
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    program = Path(__file__).with_name("ApacheCleaner.java")
    command = program_command(program, heap="256m")
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        yield Judge(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=60) == 0


@contextmanager
def opened(folder: Path, now_ms: int) -> Iterator[Log]:
    """A log on the host's disk; closed in order."""
    files = SystemFileSystem()
    folder.mkdir(parents=True, exist_ok=True)
    log = open_log(
        files,
        str(folder),
        "orders",
        0,
        CONFIG,
        log_start_offset=0,
        recovery_point=0,
        was_clean_shutdown=True,
        now_ms=NOW_MS,
        descriptors=Descriptors(files),
    )
    yield log
    log.check()
    log.close(now_ms)


def fields_of(batch: RecordBatch) -> tuple[object, ...]:
    """All that matters of a batch; its base timestamp only where it is a horizon."""
    return (
        batch.base_offset,
        batch.last_offset,
        batch.leader_epoch,
        batch.attributes,
        batch.delete_horizon_ms,
        batch.max_timestamp_ms,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
        list(decode_records(batch)),
    )


def cleaned_by_us(folder: Path, first_dirty_offset: int, now_ms: int) -> CleaningResult:
    """Clean a log that is not open."""
    with opened(folder, now_ms) as log:
        return clean_log(
            SystemFileSystem(),
            log,
            first_dirty_offset=first_dirty_offset,
            now_ms=now_ms,
            delete_retention_ms=RETENTION_MS,
        )


def contents(
    folder: Path, now_ms: int
) -> tuple[list[tuple[object, ...]], list[int], list[tuple[int, int]]]:
    """Batches, bases of segments, aborted transactions."""
    with opened(folder, now_ms) as log:
        aborted = sorted(aborted_transactions(log.segments, 0, log.end_offset))
        return [fields_of(batch) for batch in batches_of(log)], log.segments.base_offsets, aborted


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_apache_kafka_leaves_the_same(seed: int, judge: Judge, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours" / "orders-0", tmp_path / "theirs" / "orders-0"
    workload = Workload(SeededRandomness(seed))
    dirty = 0
    for number in range(ROUNDS):
        now_ms = NOW_MS + number * RETENTION_MS * (seed % 3) // 2
        history = list(workload.actions(STEPS))
        for folder in (ours, theirs):
            with opened(folder, now_ms) as log:
                for action in history:
                    apply(log, action)
                uncleanable = uncleanable_offset(log)
        if number == ROUNDS - 1:
            # What the other one has left is cleaned as well as what one's own cleaner has.
            ours, theirs = theirs, ours
        result = cleaned_by_us(ours, dirty, now_ms)
        assert result.written_bytes < result.read_bytes
        assert judge.clean(theirs, dirty, uncleanable, now_ms) == result.end_offset
        assert contents(ours, now_ms) == contents(theirs, now_ms)
        dirty = result.end_offset


def test_dump_log_segments_is_content_with_what_we_leave(judge: Judge, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours" / "orders-0", tmp_path / "theirs" / "orders-0"
    workload = Workload(SeededRandomness(1))
    with opened(ours, NOW_MS) as log:
        for action in workload.actions(200):
            apply(log, action)
        uncleanable = uncleanable_offset(log)
    shutil.copytree(ours, theirs)
    cleaned_by_us(ours, 0, NOW_MS)
    judge.clean(theirs, 0, uncleanable, NOW_MS)
    batches, _, aborted = contents(ours, NOW_MS)
    assert contents(theirs, NOW_MS)[0] == batches

    output, complaints = dump(ours, ".log", "--deep-iteration", "--print-data-log", tools=tmp_path)
    assert len(re.findall("^baseOffset: ", output, re.MULTILINE)) == len(batches) > 20
    assert "deleteHorizonMs: OptionalLong[" in output
    assert not complaints
    output, complaints = dump(ours, ".txnindex", tools=tmp_path)
    assert output.count("producerId: ") == len(aborted) > 0
    assert not complaints
    for check in ("--index-sanity-check", "--verify-index-only"):
        assert not dump(ours, ".index", check, tools=tmp_path)[1]
    # The tool does not like the greatest timestamp of a batch that has no records left.
    complaints = dump(ours, ".timeindex", "--verify-index-only", tools=tmp_path)[1]
    assert complaints == dump(theirs, ".timeindex", "--verify-index-only", tools=tmp_path)[1]


def dump(folder: Path, suffix: str, *arguments: str, tools: Path) -> tuple[str, list[str]]:
    """The output of DumpLogSegments for all files of a kind; returns the lines with problems."""
    files = sorted(str(path) for path in folder.glob(f"*{suffix}"))
    done = run_tool(DUMP_LOG_TOOL, ["--files", ",".join(files), *arguments], folder=tools)
    assert done.exit_code == 0, done.errors
    output = (done.output + done.errors).replace(str(folder), "")
    return output, [line for line in output.splitlines() if COMPLAINTS.search(line)]
