"""The machine under the figures: what it is, and how busy others keep it meanwhile."""

from __future__ import annotations

import os
import platform
import resource
import time
from dataclasses import dataclass
from pathlib import Path

SCRATCH_CHUNK_BYTES = 4 << 20


def warm_pages(directory: Path, size_bytes: int) -> None:
    """Writes and unlinks a scratch file, so that the next pages come without a trip to the host.

    The first touch of a guest's memory costs ten times the second, and free pages go back to the
    host within seconds: without this the figures measure the hypervisor.
    """
    chunk = bytes(SCRATCH_CHUNK_BYTES)
    path = directory / "warm-pages"
    with path.open("wb", buffering=0) as scratch:
        path.unlink()
        for _ in range(-(-size_bytes // SCRATCH_CHUNK_BYTES)):
            scratch.write(chunk)


def allow_many_files() -> int:
    """Raises this process's limit of open files, which its children inherit; returns it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


@dataclass(frozen=True, slots=True)
class Busy:
    """CPU time of the whole machine up to a moment, in s."""

    at_s: float
    used_s: float
    stolen_s: float

    @staticmethod
    def now() -> Busy:
        """Read from /proc/stat, in ticks of 10 ms."""
        words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        ticks = [int(word) for word in words]
        used = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
        return Busy(time.monotonic(), used * tick_s, ticks[7] * tick_s)


def foreign_share(before: Busy, after: Busy, ours_s: float) -> float:
    """Which part of the machine others used (0 to 1), `ours_s` being what the measured used."""
    capacity_s = (after.at_s - before.at_s) * (os.cpu_count() or 1)
    taken_s = after.used_s - before.used_s + after.stolen_s - before.stolen_s
    return max(0.0, (taken_s - ours_s) / capacity_s) if capacity_s > 0 else 0.0


def _file_system(directory: Path) -> str:
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, name, *_ = line.split()
        if str(directory.resolve()).startswith(point) and len(point) >= len(best):
            best, kind = point, name
    return kind


def describe(directory: Path) -> dict[str, str]:
    """The facts that a reader of the figures needs."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": f"{os.cpu_count()} x {model}",
        "memory": f"{memory_gib:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": _file_system(directory),
        "python": platform.python_version(),
    }
