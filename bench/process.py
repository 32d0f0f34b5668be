"""What a process has used so far: CPU time to the nanosecond, memory in bytes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path


def cpu_ns(pid: int) -> int:
    """User and system time of all threads, those that ended included.

    The CPU clock of a process counts what /proc/PID/task/*/schedstat counts, and keeps the time
    of dead threads, which schedstat forgets (a JVM's compiler threads come and go).
    """
    return time.clock_gettime_ns((~pid << 3) | 2)


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid: int) -> list[int]:
    """The direct children, ascending."""
    pids: list[int] = []
    for listing in sorted(Path(f"/proc/{pid}/task").glob("*/children")):
        pids += [int(word) for word in listing.read_text().split()]
    return sorted(pids)


def family(pid: int) -> list[int]:
    """The process and all that descend from it."""
    members = [pid]
    for member in members:
        members += children(member)
    return members


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of a process and its descendants."""

    resident_bytes: int
    anonymous_bytes: int
    """The part that belongs to no file: heap and stacks."""
    peak_bytes: int


def memory(pid: int) -> Memory:
    """Read from /proc/PID/status, summed over the family."""
    resident = anonymous = peak = 0
    for member in family(pid):
        fields = {}
        for line in Path(f"/proc/{member}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if value.endswith(" kB"):
                fields[name] = int(value.split()[0]) * 1024
        resident += fields["VmRSS"]
        anonymous += fields["RssAnon"]
        peak += fields["VmHWM"]
    return Memory(resident, anonymous, peak)


def settle(pid: int, *, deadline_s: float = 5.0, idle_share: float = 0.05) -> None:
    """Waits until the process uses less than `idle_share` of a core, `deadline_s` at most.

    What a broker still does after the last response (deleting, collecting garbage) must not be paid
    by the broker that is measured next.
    """
    end_s = time.monotonic() + deadline_s
    while time.monotonic() < end_s and is_alive(pid):
        before_ns, start_ns = cpu_ns(pid), time.monotonic_ns()
        time.sleep(0.1)
        if cpu_ns(pid) - before_ns < idle_share * (time.monotonic_ns() - start_ns):
            return
