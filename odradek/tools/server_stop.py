"""`odradek server-stop`: the arguments, lines and exit codes of `kafka-server-stop.sh` 3.9.

    --node-id=N    only the broker with this broker.id or node.id
    SIGNAL         in the environment: the name of the signal (default: TERM)

Without --node-id every broker of this machine that the caller may signal is stopped, those of
`odradek start` and `odradek server-start`; its supervisor starts a broker of `odradek cluster`
again.  Reads /proc.
Exit codes: 0 signals were sent; 1 there is no broker, or one cannot be signalled; 2 wrong usage.
Source: Apache Kafka's bin/kafka-server-stop.sh.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from odradek.bounded_files import system_error_text
from odradek.tools.run import KAFKA_EXIT_CODES

NONE: Final = "No kafka server to stop"
STARTS: Final = ("start", "server-start", "container-start")
ID_SETTINGS: Final = ("broker.id", "node.id")


class BrokerProcess(NamedTuple):
    """A process that is a broker."""

    pid: int
    arguments: tuple[str, ...]
    """The words after `start`."""
    folder: Path
    """The working directory."""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek server-stop",
        description="Stop every broker of this machine that you may send a signal to.  SIGNAL in "
        "the environment names another one than TERM.",
    )
    parser.add_argument(
        "--node-id", metavar="N", help="stop only the broker with this broker.id or node.id"
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    chosen: str | None = build_parser().parse_args(list(arguments)).node_id
    name = os.environ.get("SIGNAL") or "TERM"
    number = getattr(signal, f"SIG{name.upper().removeprefix('SIG')}", None)
    if not isinstance(number, signal.Signals):
        print(f"odradek server-stop: SIGNAL={name} is not the name of a signal", file=sys.stderr)
        return 1
    stopped = servers(Path("/proc"))
    if chosen is not None:
        stopped = [server for server in stopped if node_id(server) == chosen]
    if not stopped:
        print(NONE)
        return 1
    code = 0
    for server in stopped:
        try:
            os.kill(server.pid, number)
        except OSError as error:
            print(f"odradek: {server.pid}: {system_error_text(error)}", file=sys.stderr)
            code = 1
    return code


def servers(processes: Path) -> list[BrokerProcess]:
    """The brokers among the processes of this machine, but this process.

    processes  the folder /proc
    """
    return [
        server
        for folder in processes.iterdir()
        if folder.name.isdecimal() and int(folder.name) != os.getpid()
        for server in _server(folder)
    ]


def _server(process: Path) -> Iterator[BrokerProcess]:
    try:
        words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        folder = (process / "cwd").readlink()
    except OSError:
        return  # It has ended, or belongs to another user.
    words = [word for word in words if word != KAFKA_EXIT_CODES]
    for index, (program, action) in enumerate(pairwise(words)):
        if os.path.basename(program) == "odradek" and action in STARTS:
            yield BrokerProcess(int(process.name), tuple(words[index + 2 :]), folder)
            return


def node_id(server: BrokerProcess) -> str | None:
    """The broker id of its command line, else that of its settings file, else None."""
    from odradek.tools.client_config import InvalidPropertiesError, read_properties

    settings: dict[str, str] = {}
    overrides: dict[str, str] = {}
    words = list(reversed(server.arguments))
    while words:
        word = words.pop()
        if word.startswith("--override"):
            text = word.partition("=")[2] if "=" in word else (words.pop() if words else "")
            key, _, value = text.partition("=")
            overrides[key.strip()] = value.strip()
        elif word and not word.startswith("-") and not settings:
            try:
                settings = read_properties(str(server.folder / word))
            except (OSError, InvalidPropertiesError):
                continue  # The value of another option, or a file that is gone.
    for source in (overrides, settings):
        for key in ID_SETTINGS:
            if source.get(key):
                return source[key].strip()
    return None
