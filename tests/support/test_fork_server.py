"""A forked broker beside an executed one, and its end when its server or its tests are killed."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import fork_server
from tests.support.broker_process import READY_TIMEOUT_S, STOP_TIMEOUT_S, BrokerProcess
from tests.support.processes import LoggedProcess
from tests.support.tool_cache import PROJECT

LIMIT_BYTES = 1 << 30
ENVIRONMENT = {"ODRADEK_POISON_LENT_MEMORY": "1", "TZ": "Asia/Tokyo"}
STATUS = ("SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "Cpus_allowed")
PROGRAM = """
import os, sys
from pathlib import Path
from tests.support import fork_server
from tests.support.broker_process import BrokerProcess
broker = BrokerProcess(Path(sys.argv[1])).start()
print(broker.process.pid, fork_server.servers[os.getpid()].process.pid, flush=True)
sys.stdin.readline()
try:
    broker.stop()
except fork_server.ForkServerFailed as error:
    print(type(error).__name__)
print(broker.start().stop())
"""


def start(folder: Path, *words: str, is_executed: bool = False) -> LoggedProcess:
    folder.mkdir(exist_ok=True)
    return LoggedProcess(
        [*fork_server.COMMAND, *words],
        log=folder / "log",
        folder=folder,
        environment=ENVIRONMENT,
        limits={resource.RLIMIT_FSIZE: LIMIT_BYTES},
        is_executed=is_executed,
    )


def open_files(entry: Path) -> dict[int, str]:
    """What the descriptors of a process refer to; some are closed while this looks at them."""
    files = {}
    for name in os.listdir(entry / "fd"):
        with suppress(FileNotFoundError):
            files[int(name)] = os.readlink(entry / "fd" / name)
    return files


def visible(process: LoggedProcess) -> list[object]:
    """What others can see of a process."""
    entry = Path(f"/proc/{process.pid}")
    files = open_files(entry)
    status = (entry / "status").read_text().splitlines()
    return [
        os.readlink(entry / "cwd") == str(process.log.parent),
        os.readlink(entry / "exe"),
        files[0],
        files[1].partition(":")[0],
        files[1] == files[2],
        # Whatever was open at one instant, such as a file that is being synced.
        {name.partition(":")[0] for name in files.values() if name.startswith(("socket", "pipe"))},
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE),
        os.getsid(process.pid) == process.pid,
        [line for line in status if line.startswith(STATUS)],
    ]


def test_forked_broker_looks_like_an_executed_one(tmp_path: Path) -> None:
    seen = []
    for is_executed in (False, True):
        folder = tmp_path / str(is_executed)
        with start(folder, "start", "--port", "0", is_executed=is_executed) as process:
            process.wait_for_line(r"\bready\b", timeout_s=READY_TIMEOUT_S)
            seen.append(visible(process))
            assert process.running()
            assert process.stop(timeout_s=STOP_TIMEOUT_S) == 0
            assert not process.running()
            assert not Path(f"/proc/{process.pid}").exists(), "it is reaped"
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--version"], 0), (["start", "--no"], 2), (["start", "absent"], 1), ([], 2)],
)
def test_command_prints_and_ends_as_an_executed_one(
    tmp_path: Path, words: list[str], code: int
) -> None:
    printed = []
    for is_executed in (False, True):
        with start(tmp_path, *words, is_executed=is_executed) as process:
            assert process.wait(timeout_s=STOP_TIMEOUT_S) == code
            printed.append(process.lines())
    assert printed[0] == printed[1] != []


def test_killed_broker_has_the_exit_code_of_its_signal(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path).start()
    process = broker.process
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(timeout_s=STOP_TIMEOUT_S) == -signal.SIGKILL
    broker.close()
    assert broker.start().stop() == 0


@pytest.mark.parametrize("killed", ["tests", "server"])
def test_broker_ends_with_its_server_which_ends_with_its_tests(tmp_path: Path, killed: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as tests:
        assert tests.stdout is not None
        pids = [int(pid) for pid in tests.stdout.readline().split()]
        descriptors = [os.pidfd_open(pid) for pid in pids]
        os.kill(pids[1] if killed == "server" else tests.pid, signal.SIGKILL)
        for descriptor in descriptors:
            assert select.select([descriptor], [], [], STOP_TIMEOUT_S)[0], "it runs still"
            os.close(descriptor)
        printed, _ = tests.communicate("\n")
    if killed == "server":
        # The failure is seen, and a second server serves the next broker.
        assert printed.splitlines() == ["ForkServerFailed", "0"]
        assert tests.returncode == 0
