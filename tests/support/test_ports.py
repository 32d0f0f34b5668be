"""Ports of servers in tests."""

from __future__ import annotations

import socket
import subprocess
import sys

from tests.support.ports import BLOCK_PORTS, free_port

MANY = BLOCK_PORTS // 4
SCRIPT = f"""
import sys
from tests.support.ports import free_port
print(*(free_port() for _ in range({MANY})), flush=True)
sys.stdin.read()
"""


def test_processes_that_run_at_once_get_no_port_twice() -> None:
    command = [sys.executable, "-c", SCRIPT]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(8)]  # type: ignore[call-overload]
    try:
        ports = [free_port() for _ in range(MANY)]
        for process in processes:
            ports += [int(port) for port in process.stdout.readline().split()]
    finally:
        for process in processes:
            process.communicate()
    assert len(ports) == len(set(ports)) == 9 * MANY


def test_port_that_something_listens_on_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        taken.listen()
        ports = {free_port() for _ in range(BLOCK_PORTS)}
        assert taken.getsockname()[1] not in ports
