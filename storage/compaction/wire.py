"""What the broker and its cleaning worker say to each other: one JSON object a line.

    to the worker       {"job": {...}}                    clean this; one at a time
                        {"bytes_per_second_max": 1e6}     of the job under way, from now on
    from the worker     {"progress_bytes": 123}           alive; about once a second
                        {"result": {...}}                 the files are written and synced
                        {"failure": {...}}                nothing is left of what was written

The end of either pipe ends the conversation.
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

HURRIED: Final = "hurried"
"""On the worker's command line: with a share of processors that others keep busy."""
STARVED: Final = errno.ETIME
"""Error number of a job that was given up for want of one."""


@dataclass(frozen=True, slots=True)
class CleaningFailure:
    """Why a job was not done."""

    reason: str
    """For the operator."""
    error_number: int | None
    """errno where the disk or the system has refused; None: the log itself cannot be cleaned."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The worker is at it."""

    bytes_done: int
    """Read and written so far."""


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))

Answer = CleaningResult | CleaningFailure | Progress


def encode_job(job: CleaningJob) -> bytes:
    """The line that begins a job.

    cost  3 us for each active producer: for a thread, which lets others run meanwhile
    """
    # `asdict` would copy every number by itself, and `dumps` would let nobody run before its end.
    said = {"job": {field.name: getattr(job, field.name) for field in fields(job)}}
    return "".join(_ENCODER.iterencode(said)).encode() + b"\n"


def encode_rate(bytes_per_second_max: float) -> bytes:
    """The line that changes the throttle of the job under way."""
    return _line({"bytes_per_second_max": bytes_per_second_max})


def encode_answer(answer: Answer) -> bytes:
    """The line that tells how it goes."""
    match answer:
        case Progress():
            return _line({"progress_bytes": answer.bytes_done})
        case CleaningResult():
            return _line({"result": asdict(answer)})
        case CleaningFailure():
            return _line({"failure": asdict(answer)})


def decode_request(line: bytes) -> CleaningJob | float:
    """A job, or a new bound in bytes per second."""
    said = json.loads(line)
    if "job" not in said:
        return float(said["bytes_per_second_max"])
    job: dict[str, Any] = said["job"]
    job["base_offsets"] = tuple(job["base_offsets"])
    job["active_producers"] = tuple(
        ActiveProducer(*producer) for producer in job["active_producers"]
    )
    job["later_aborts"] = tuple(AbortedTransaction(*abort) for abort in job["later_aborts"])
    return CleaningJob(**job)


def decode_answer(line: bytes) -> Answer:
    """What the worker said."""
    said = json.loads(line)
    if "progress_bytes" in said:
        return Progress(said["progress_bytes"])
    if "failure" in said:
        return CleaningFailure(**said["failure"])
    result: dict[str, Any] = said["result"]
    result["groups"] = tuple(
        CleanedGroup(**{**group, "replaced_base_offsets": tuple(group["replaced_base_offsets"])})
        for group in result["groups"]
    )
    return CleaningResult(**result)


def _line(said: dict[str, Any]) -> bytes:
    return _ENCODER.encode(said).encode() + b"\n"
