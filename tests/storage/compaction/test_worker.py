"""The parts of the cleaning worker that have no process around them, and what it says."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from odradek.storage.compaction.job import ActiveProducer, CleaningJob, CleaningResult
from odradek.storage.compaction.wire import (
    PRIORITY_MAX,
    CleaningFailure,
    CleaningProgress,
    decode_message,
    decode_request,
    encode_job,
    encode_message,
    encode_rate,
)
from odradek.storage.compaction.worker import (
    PORTION_BYTES,
    PRIORITIES,
    STARVATION_S,
    ChunkedFileSystem,
    CpuStarvation,
)
from odradek.storage.indexes.txn_index import AbortedTransaction
from odradek.storage.segments.segments import CleanedGroup

JOB = CleaningJob(
    directory="/data/orders-0",
    base_offsets=(0, 10, 20),
    log_start_offset=0,
    first_dirty_offset=10,
    first_uncleanable_offset=30,
    now_ms=1_700_000_000_000,
    delete_retention_ms=86_400_000,
    segment_bytes=1 << 30,
    segment_index_bytes=10 << 20,
    index_interval_bytes=4096,
    max_message_bytes=1 << 20,
    map_entries_max=1_000,
    bytes_per_second_max=float("inf"),
    truncation_count=3,
    later_aborts=(AbortedTransaction(7, 12, 35, 36),),
    active_producers=(ActiveProducer(7, 1, 25),),
)
RESULT = CleaningResult(
    groups=(CleanedGroup(0, (0, 10), 123), CleanedGroup(20, (20,), 0)),
    end_offset=30,
    read_bytes=1_000,
    written_bytes=123,
    read_records=30,
    kept_records=4,
    elapsed_ms=5,
)


@pytest.mark.parametrize("rate", [float("inf"), 1.7976931348623157e308, 1e6, 1.0])
def test_job_arrives_as_it_was_sent(rate: float) -> None:
    job = replace(JOB, bytes_per_second_max=rate)
    line = encode_job(job)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_request(line) == job
    assert decode_request(encode_rate(rate)) == rate


@pytest.mark.parametrize(
    "message",
    [
        RESULT,
        replace(RESULT, groups=()),
        CleaningProgress(12),
        CleaningFailure("bad", None),
        CleaningFailure("two\nlines", errno.EIO),
    ],
)
def test_message_is_decoded_as_it_was_encoded(message: CleaningResult | CleaningFailure) -> None:
    line = encode_message(message)
    assert line.count(b"\n") == 1
    assert decode_message(line) == message


def test_files_are_read_and_written_whole_in_small_portions(tmp_path: Path) -> None:
    data = os.urandom(3 * PORTION_BYTES + 17)
    file = ChunkedFileSystem().open(str(tmp_path / "file"), create=True)
    assert file.append((data[:5], data[5:])) == len(data)
    assert file.read_at(0, len(data)) == data
    assert file.read_at(9, 2 * PORTION_BYTES) == data[9 : 9 + 2 * PORTION_BYTES]
    assert file.read_at(7, 10 * PORTION_BYTES) == data[7:], "up to the end"
    file.close()


def test_process_that_gets_under_two_percent_of_the_processor_is_starved(tmp_path: Path) -> None:
    counts = tmp_path / "schedstat"
    counts.write_text("1000 1000 1\n")
    starvation = CpuStarvation(0.0, str(counts))
    counts.write_text(f"{1000 + 10**8} {1000 + 10**10} 9\n")
    assert not starvation.is_starved(STARVATION_S - 1), "not yet"
    assert starvation.is_starved(STARVATION_S)
    assert not starvation.is_starved(2 * STARVATION_S), "it has not waited since"
    counts.write_text(f"{1000 + 2 * 10**9} {1000 + 2 * 10**10} 9\n")
    assert not starvation.is_starved(3 * STARVATION_S), "a sixth is enough"


def test_no_process_is_starved_where_the_kernel_does_not_count(tmp_path: Path) -> None:
    assert not CpuStarvation(0.0, str(tmp_path / "none")).is_starved(STARVATION_S)


COMMAND = [sys.executable, "-I", "-m", "odradek.storage.compaction.worker"]
END_S = 60.0


@contextmanager
def worker_of(priority: int) -> Iterator[subprocess.Popen[bytes]]:
    """A worker, which ends with its input."""
    command = [*COMMAND, str(priority), str(os.getpid())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        yield process
        process.stdin.close()
        assert process.wait(END_S) == 0


def message_for(job: CleaningJob, process: subprocess.Popen[bytes]) -> object:
    """What the worker says to one job in the end, its progress left out."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(encode_job(job))
    process.stdin.flush()
    while True:
        message = decode_message(process.stdout.readline())
        if not isinstance(message, CleaningProgress):
            return message


@pytest.mark.parametrize(
    ("priority", "policy", "niceness"),
    [(0, os.SCHED_IDLE, 19), (1, os.SCHED_BATCH, 19), (2, os.SCHED_BATCH, 10)],
)
def test_process_has_the_policy_and_the_niceness_of_its_priority(
    tmp_path: Path, priority: int, policy: int, niceness: int
) -> None:
    assert len(PRIORITIES) == PRIORITY_MAX + 1
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with worker_of(priority) as process:
        # It has come so far when it responds.
        message_for(replace(JOB, directory=str(tmp_path / "missing")), process)
        assert os.sched_getscheduler(process.pid) == policy
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(own + niceness, 19)


def test_missing_folder_fails_the_job_and_not_the_worker(tmp_path: Path) -> None:
    with worker_of(PRIORITY_MAX) as process:
        for _ in range(2):
            failure = message_for(replace(JOB, directory=str(tmp_path / "missing")), process)
            assert isinstance(failure, CleaningFailure)
            assert failure.error_number == errno.ENOENT


def test_damage_is_a_failure_without_error_number_and_leaves_no_files(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(b"\0" * 100)
    job = replace(
        JOB,
        directory=str(tmp_path),
        base_offsets=(0,),
        first_dirty_offset=0,
        later_aborts=(),
        active_producers=(),
    )
    with worker_of(PRIORITY_MAX) as process:
        failure = message_for(job, process)
    assert isinstance(failure, CleaningFailure)
    assert failure.error_number is None
    assert f"{0:020d}.log" in failure.reason
    assert [path.name for path in tmp_path.iterdir()] == [f"{0:020d}.log"]


def test_worker_of_a_parent_that_has_ended_ends_at_once() -> None:
    ended = subprocess.run(
        [*COMMAND, "0", "1"], stdin=subprocess.PIPE, capture_output=True, timeout=END_S
    )
    assert (ended.returncode, ended.stdout) == (0, b"")


def test_job_is_encoded_as_json() -> None:
    assert json.loads(encode_job(JOB))["job"]["directory"] == "/data/orders-0"
