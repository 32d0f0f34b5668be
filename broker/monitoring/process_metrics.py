"""What the kernel and the interpreter know of this process.

Names are those of Prometheus's client libraries; collections of garbage have the name that JVMs
give theirs, by which dashboards ask.
"""

from __future__ import annotations

import gc
import os
import resource
from pathlib import Path
from typing import Final, NamedTuple

from odradek.broker.monitoring.exposition import Exposition, counter, gauge, summary
from odradek.runtime.descriptor_limit import open_descriptors

OWN: Final = Path("/proc/self")
TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class ProcessState(NamedTuple):
    """What is read of /proc."""

    open_descriptors: int
    resident_bytes: int
    virtual_bytes: int
    threads: int
    started_ticks: int
    booted_s: int
    read_bytes: int
    written_bytes: int


def read_process() -> ProcessState:
    """Read /proc; takes milliseconds with thousands of descriptors."""
    # The name of the program may have spaces and brackets.
    fields = (OWN / "stat").read_text().rpartition(")")[2].split()
    counts = dict(line.split(": ") for line in (OWN / "io").read_text().splitlines())
    boot = next(
        line.split()[1]
        for line in Path("/proc/stat").read_text().splitlines()
        if line.startswith("btime ")
    )
    return ProcessState(
        open_descriptors=open_descriptors(),
        threads=int(fields[17]),
        started_ticks=int(fields[19]),
        virtual_bytes=int(fields[20]),
        resident_bytes=int(fields[21]) * PAGE_BYTES,
        booted_s=int(boot),
        read_bytes=int(counts["read_bytes"]),
        written_bytes=int(counts["write_bytes"]),
    )


def write_process(exposition: Exposition, state: ProcessState) -> None:
    """The metrics of the process.

    How long collections of garbage took is not measured: to be called at each of them costs 5 us a
    request.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = counter("process_cpu_seconds", "Processor time, of the user and of the system.")
    exposition.metric(cpu, usage.ru_utime + usage.ru_stime)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    for name, text, value in (
        ("process_open_fds", "Open descriptors.", state.open_descriptors),
        ("process_max_fds", "Descriptors that may be open.", limit),
        ("process_resident_memory_bytes", "Memory that is in use.", state.resident_bytes),
        ("process_virtual_memory_bytes", "Address space.", state.virtual_bytes),
        (
            "process_start_time_seconds",
            "When the process started, in seconds since 1970.",
            state.booted_s + state.started_ticks / TICKS_A_SECOND,
        ),
        ("jvm_threads_current", "Threads of the process.", state.threads),
        (
            "kafka_server_kafkaserver_linux_disk_read_bytes",
            "Bytes that the process has read from disks.",
            state.read_bytes,
        ),
        (
            "kafka_server_kafkaserver_linux_disk_write_bytes",
            "Bytes that the process has written to disks.",
            state.written_bytes,
        ),
    ):
        exposition.metric(gauge(name, text), value)
    family = summary("jvm_gc_collection_seconds", "Collections of garbage.")
    exposition.begin(family)
    for generation, stats in enumerate(gc.get_stats()):
        exposition.lone_count(family, stats["collections"], f'{{gc="generation {generation}"}}')
