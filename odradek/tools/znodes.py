"""`odradek znodes`: read the znodes of a cluster, with the lines of `zookeeper-shell.sh` 3.9.

The server is a ZooKeeper, or a broker that serves ZooKeeper's protocol.  The tool only reads.
Exit codes: 0 success; 1 failure, such as a missing znode; 2 an invalid command line.
Source: ZooKeeper 3.8's ZooKeeperMain (LsCommand, GetCommand, StatCommand, StatPrinter); `tree` is
ours.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from odradek.tools.errors import ToolError
from odradek.tools.options import HelpRequested, OptionsError
from odradek.tools.run import KAFKA_VERSION, run_tool
from odradek.tools.zookeeper import MissingZnodeError, Znodes, open_znodes

USAGE: Final = """\
usage: odradek znodes HOST:PORT[,HOST:PORT...][/CHROOT] COMMAND

  ls [-s] [-R] PATH   print the children of a znode; -s its numbers, too; -R all znodes below it
  get [-s] PATH       print the data of a znode; -s its numbers, too
  stat PATH           print the numbers of a znode
  tree [PATH]         print a znode and all below it, indented, each with its data in one line

The znodes are those of a ZooKeeper, or of a broker that serves ZooKeeper's protocol.  Nothing is
changed."""
COMMANDS: Final[Mapping[str, Sequence[str]]] = {
    "ls": ("-s", "-R"),
    "get": ("-s",),
    "stat": (),
    "tree": (),
}
"""Command -> its options."""
DATA_WIDTH: Final = 100
"""Characters of data in a line of `tree`."""


def parse_arguments(arguments: Sequence[str]) -> tuple[str, str, list[str], str]:
    """Address, command, options and path.

    raises  OptionsError; HelpRequested for --help
    """
    if "--help" in arguments:
        raise HelpRequested(USAGE)
    if len(arguments) < 2:
        raise OptionsError(USAGE)
    address, command, *rest = arguments
    if command not in COMMANDS:
        raise OptionsError(f"Command not found: {command}\n{USAGE}")
    options = [word for word in rest if word.startswith("-")]
    paths = [word for word in rest if not word.startswith("-")]
    unknown = [word for word in options if word not in COMMANDS[command]]
    if unknown:
        raise OptionsError(f"Unrecognized option: {unknown[0]}\n{USAGE}")
    if command == "tree" and not paths:
        paths = ["/"]
    if len(paths) != 1:
        raise OptionsError(USAGE)
    if not paths[0].startswith("/"):
        raise OptionsError("Path must start with / character")
    if paths[0] != "/" and paths[0].endswith("/"):
        raise OptionsError("Path must not end with / character")
    return address, command, options, paths[0]


def main(arguments: Sequence[str]) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    if "--version" in arguments:
        print(KAFKA_VERSION)
        return 0
    try:
        address, command, options, path = parse_arguments(arguments)
    except OptionsError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    try:
        with open_znodes(address) as znodes:
            for line in lines_of(znodes, command, options, path):
                print(line)
    except MissingZnodeError:
        raise ToolError(f"Node does not exist: {path}") from None
    return 0


def lines_of(znodes: Znodes, command: str, options: Sequence[str], path: str) -> Iterator[str]:
    """The output of a command.

    raises  MissingZnodeError
    """
    if command == "tree":
        yield from tree(znodes, path)
        return
    if command == "ls" and "-R" in options:
        yield from walk(znodes, path)
        return
    data, stat = znodes.data(path)
    if command == "ls":
        yield f"[{', '.join(znodes.children(path))}]"
    elif command == "get":
        yield "null" if data is None else data.decode(errors="replace")
    if command == "stat" or "-s" in options:
        yield from stat_lines(stat)


def walk(znodes: Znodes, path: str) -> Iterator[str]:
    """A path, then the children of each znode together, as ZooKeeper's shell lists them.

    A znode that is deleted meanwhile has no children.
    """
    znodes.data(path)
    yield path
    pending = [path]
    while pending:
        parent = pending.pop()
        node = znodes.find(parent)
        if node is not None:
            children = [_below(parent, name) for name in node[1]]
            yield from children
            pending += reversed(children)


def tree(znodes: Znodes, path: str) -> Iterator[str]:
    """A znode and all below it, indented by depth."""
    data, _ = znodes.data(path)
    yield f"{path}{_data_text(data)}"
    pending = [(_below(path, name), 1) for name in reversed(znodes.children(path))]
    while pending:
        child, depth = pending.pop()
        node = znodes.find(child)
        if node is None:
            continue
        data, names = node
        yield f"{'  ' * depth}{child.rpartition('/')[2]}{_data_text(data)}"
        pending += [(_below(child, name), depth + 1) for name in reversed(names)]


def _below(path: str, name: str) -> str:
    return f"/{name}" if path == "/" else f"{path}/{name}"


def _data_text(data: bytes | None) -> str:
    if not data:
        return ""
    text = " ".join(data.decode(errors="replace").split())
    return f"  {text if len(text) <= DATA_WIDTH else text[: DATA_WIDTH - 3] + '...'}"


def stat_lines(stat: Any) -> Iterator[str]:
    """The numbers of a znode."""
    yield f"cZxid = {stat.czxid:#x}"
    yield f"ctime = {_time(stat.ctime)}"
    yield f"mZxid = {stat.mzxid:#x}"
    yield f"mtime = {_time(stat.mtime)}"
    yield f"pZxid = {stat.pzxid:#x}"
    yield f"cversion = {stat.cversion}"
    yield f"dataVersion = {stat.version}"
    yield f"aclVersion = {stat.aversion}"
    yield f"ephemeralOwner = {stat.ephemeralOwner:#x}"
    yield f"dataLength = {stat.dataLength}"
    yield f"numChildren = {stat.numChildren}"


def _time(time_ms: int) -> str:
    return time.strftime("%a %b %d %H:%M:%S %Z %Y", time.localtime(time_ms // 1000))
