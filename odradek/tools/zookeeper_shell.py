"""`odradek zookeeper-shell`: the lines and exit codes of `zookeeper-shell.sh` 3.9 where it reads.

    odradek zookeeper-shell HOST:PORT[/CHROOT] COMMAND    ls, get or stat, as of `odradek znodes`
    odradek zookeeper-shell HOST:PORT[/CHROOT]            a command in each line of standard input

Exit codes: 0 success; 1 failure of the last command, 127 when there is no such command.
Differs from Kafka: no command changes a znode, and none waits for a watch.
Source: ZooKeeper 3.8's ZooKeeperMain, Kafka 3.9's ZooKeeperMainWithTlsSupportForKafka.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from odradek.tools.client import ClientError
from odradek.tools.options import OptionsError
from odradek.tools.run import KAFKA_VERSION, run_tool
from odradek.tools.znodes import lines_of, parse_arguments
from odradek.tools.zookeeper import MissingZnodeError, Znodes, open_znodes

USAGE: Final = """\
USAGE: zookeeper-shell.sh zookeeper_host:port[/path] [ls|get|stat [-s] path]

Without a command, standard input has one in each line.  Nothing is changed: zkCli.sh of ZooKeeper
does that."""
TLS: Final = "-zk-tls-config-file"
READS: Final = ("ls", "get", "stat")
ENDS: Final = ("quit", "close")
NOT_FOUND: Final = 127
WATCHER: Final = "\nWATCHER::\n\nWatchedEvent state:{} type:None path:null"


def main(arguments: Sequence[str]) -> int:
    """Run the commands; returns the exit code of the last one."""
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    words = list(arguments)
    if not words or "--help" in words:
        print(USAGE)
        return 0 if words else 1
    if words == ["--version"]:
        print(KAFKA_VERSION)
        return 0
    if TLS in words:
        print(f"{TLS} is not served: zkCli.sh of ZooKeeper speaks TLS", file=sys.stderr)
        return 1
    address, *command = words
    if command and not _can_be_read(address, command):
        # A wrong command is reported before anything is connected.
        return _code_of(command)
    try:
        print(f"Connecting to {address}")
        with open_znodes(address) as znodes:
            if not command:
                print("Welcome to ZooKeeper!\nJLine support is disabled")
            print(WATCHER.format("SyncConnected"))
            return run_command(znodes, address, command) if command else _run_lines(znodes, address)
    except ClientError as error:
        print(error, file=sys.stderr)
        return 1


def _run_lines(znodes: Znodes, address: str) -> int:
    code = 0
    for line in sys.stdin:
        command = line.split()
        if command and command[0] in ENDS:
            print(WATCHER.format("Closed"))
            break
        if not command:
            continue
        code = (
            run_command(znodes, address, command)
            if _can_be_read(address, command)
            else _code_of(command)
        )
    return code


def _code_of(command: Sequence[str]) -> int:
    return 1 if command[0] in READS else NOT_FOUND


def _can_be_read(address: str, command: Sequence[str]) -> bool:
    """Whether a command is one of those that read; else a line on stderr says what is wrong."""
    if command[0] not in READS:
        print(
            f"{command[0]}: only {', '.join(READS)} are served; zkCli.sh of ZooKeeper has the "
            "other commands",
            file=sys.stderr,
        )
        return False
    try:
        parse_arguments([address, *command])
    except OptionsError as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        return False
    return True


def run_command(znodes: Znodes, address: str, command: Sequence[str]) -> int:
    """Print what a command reads; returns its exit code."""
    from kazoo.exceptions import NoNodeError

    _, name, options, path = parse_arguments([address, *command])
    try:
        for line in lines_of(znodes, name, options, path):
            print(line)
    except (NoNodeError, MissingZnodeError):
        print(f"Node does not exist: {path}", file=sys.stderr)
        return 1
    return 0
