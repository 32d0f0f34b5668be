"""Messages between the broker and its cleaning worker: one JSON object a line.

    to the worker       {"job": {...}}                    clean this; one at a time
                        {"bytes_per_second_max": 1e6}     of the job under way, from now on
    from the worker     {"progress_bytes": 123}           about once a second
                        {"result": {...}}                 the files are written and synced
                        {"failure": {...}}                what was written is removed

The end of either pipe ends the exchange.
"""

from __future__ import annotations

import errno
import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from odradek.storage.compaction.job import ActiveProducer, CleaningJob, CleaningResult
from odradek.storage.indexes.txn_index import AbortedTransaction
from odradek.storage.segments.segments import CleanedGroup

LINE_BYTES_MAX: Final = 16 << 20
"""A job names each segment in 20 characters: this is enough for half a million of them."""

PRIORITY_MAX: Final = 2
"""A worker's priority is 0 to this; the higher, the more time on processors that other programs
keep busy."""
NO_CPU_TIME: Final = errno.ETIME
"""Error number of a job that was given up because the worker got no processor."""


@dataclass(frozen=True, slots=True)
class CleaningFailure:
    """Why a job was not done."""

    reason: str
    """For the operator."""
    error_number: int | None
    """errno where the disk or the system has refused; None: the log itself cannot be cleaned."""


@dataclass(frozen=True, slots=True)
class CleaningProgress:
    """A job is under way."""

    bytes_done: int
    """Read and written so far."""


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))

WorkerMessage = CleaningResult | CleaningFailure | CleaningProgress


def encode_job(job: CleaningJob) -> bytes:
    """The line that begins a job.

    cost  3 us for each active producer: for a thread: other threads run meanwhile
    """
    # `asdict` would copy every number, and no other thread runs during one call of `dumps`.
    message = {"job": {field.name: getattr(job, field.name) for field in fields(job)}}
    return "".join(_ENCODER.iterencode(message)).encode() + b"\n"


def encode_rate(bytes_per_second_max: float) -> bytes:
    """The line that changes the throttle of the job under way."""
    return _line({"bytes_per_second_max": bytes_per_second_max})


def encode_message(message: WorkerMessage) -> bytes:
    """The line that a worker sends."""
    match message:
        case CleaningProgress():
            return _line({"progress_bytes": message.bytes_done})
        case CleaningResult():
            return _line({"result": asdict(message)})
        case CleaningFailure():
            return _line({"failure": asdict(message)})


def decode_request(line: bytes) -> CleaningJob | float:
    """A job, or a new bound in bytes per second."""
    message = json.loads(line)
    if "job" not in message:
        return float(message["bytes_per_second_max"])
    job: dict[str, Any] = message["job"]
    job["base_offsets"] = tuple(job["base_offsets"])
    job["active_producers"] = tuple(
        ActiveProducer(*producer) for producer in job["active_producers"]
    )
    job["later_aborts"] = tuple(AbortedTransaction(*abort) for abort in job["later_aborts"])
    return CleaningJob(**job)


def decode_message(line: bytes) -> WorkerMessage:
    """The message of a worker."""
    message = json.loads(line)
    if "progress_bytes" in message:
        return CleaningProgress(message["progress_bytes"])
    if "failure" in message:
        return CleaningFailure(**message["failure"])
    result: dict[str, Any] = message["result"]
    result["groups"] = tuple(
        CleanedGroup(base_offset, tuple(replaced), size_bytes)
        for base_offset, replaced, size_bytes in result["groups"]
    )
    return CleaningResult(**result)


def _line(message: dict[str, Any]) -> bytes:
    return _ENCODER.encode(message).encode() + b"\n"
