"""`odradek pipeline run` as a process, started the way a user starts it, and what it leaves."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support import maven
from tests.support.class_archives import small_spark
from tests.support.prepare import SPARK_VERSION
from tests.support.processes import LoggedProcess, ProcessFailed

END_TIMEOUT_S = 600.0


class PipelineJob:
    """One run of a pipeline file; what it prints goes to `log`."""

    def __init__(
        self,
        file: Path,
        *,
        log: Path,
        arguments: Sequence[str] = (),
        master: str = "local[2]",
        program: Sequence[str] = ("odradek.pipeline.cli",),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """
        program      the module, and its arguments before those of the command
        environment  with the folder of fetched connectors; None: jars are given
        """
        jars = ["--jars", str(maven.spark_connectors(SPARK_VERSION))]
        command = [
            sys.executable,
            "-m",
            *program,
            "run",
            str(file),
            *(jars if environment is None else ()),
        ]
        self.process = LoggedProcess(
            [*command, "--master", master, *arguments],
            log=log,
            folder=Path(__file__).parents[2],
            environment={**small_spark(), "PYTHONUNBUFFERED": "1", **(environment or {})},
        )

    def kill(self) -> None:
        """SIGKILL to Python and Java at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()

    def java_pids(self) -> list[int]:
        """Processes of Java that this job has started and that live."""
        return [pid for pid in group_of(self.process.pid) if _program(pid) == "java"]

    def close(self) -> None:
        """End it whatever its state; for the end of a test."""
        if group_of(self.process.pid):
            self.kill()

    def wait(self, *, timeout_s: float = END_TIMEOUT_S) -> int:
        """Until it ends; the exit code."""
        return self.process.wait(timeout_s=timeout_s)

    def finish(self, *, timeout_s: float = END_TIMEOUT_S) -> None:
        """Until it ends; it must end well."""
        code = self.wait(timeout_s=timeout_s)
        if code != 0:
            raise ProcessFailed(f"the pipeline ended with {code}:\n{self.process.tail()}")


def group_of(leader: int) -> list[int]:
    """Living processes of a process group."""
    processes = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _fields(int(entry.name))
            if fields and fields[2] == str(leader) and fields[0] != "Z":
                processes.append(int(entry.name))
    return processes


def _fields(pid: int) -> list[str]:
    """State, parent, group, ... of `/proc/PID/stat`."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
