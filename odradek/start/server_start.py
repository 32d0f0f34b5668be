"""`odradek server-start [-daemon] server.properties`: the arguments of `kafka-server-start.sh` 3.9.

Lines of Apache Kafka that others wait for are printed on stdout when the broker serves clients.

    -daemon    leave the broker in the background; what it prints is appended to kafkaServer.out in
               the folder LOG_DIR (default: ./logs)

Exit codes: those of `odradek start`; 0 for a daemon that runs on; 1 without arguments.
Source: Apache Kafka's bin/kafka-server-start.sh and bin/kafka-run-class.sh.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from odradek.bounded_files import system_error_text

USAGE: Final = (
    "USAGE: kafka-server-start.sh [-daemon] server.properties [--override property=value]*"
)
HELP: Final = """\
Starts a broker.  With -daemon it goes on in the background, and what it prints is appended to
kafkaServer.out in the folder that LOG_DIR names (default: logs).
`odradek start --help` describes the other options."""
DAEMON: Final = "-daemon"
OUTPUT_FILE: Final = "kafkaServer.out"


def main(arguments: Sequence[str]) -> int:
    words = list(arguments)
    is_daemon = words[:1] == [DAEMON]
    if is_daemon:
        del words[0]
    if not words:
        print(USAGE)
        return 1
    if "--help" in words:
        print(f"{USAGE}\n\n{HELP}")
        return 0
    if words == ["--version"]:
        from odradek.tools.run import KAFKA_VERSION

        print(KAFKA_VERSION)
        return 0
    if not is_daemon:
        from odradek.start.command import main as start
        from odradek.start.started_lines import print_started_lines

        is_json = "--log-format=json" in words or ("--log-format", "json") in pairwise(words)
        log_format = "json" if is_json else "plain"
        return start(
            words, lambda address, log_dirs, control: print_started_lines(log_dirs[0], log_format)
        )
    try:
        start_daemon(words, os.environ.get("LOG_DIR") or "logs")
    except OSError as error:
        print(f"odradek: {system_error_text(error)}", file=sys.stderr)
        return 1
    return 0


def start_daemon(words: Sequence[str], folder: str) -> int:
    """Start a broker that outlives the terminal; returns its process id.

    words    arguments of `odradek server-start`
    folder   of the file to which its output is appended
    raises   OSError
    """
    from odradek.launcher import module_command

    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, OUTPUT_FILE), "ab") as output:
        daemon = subprocess.Popen(
            module_command("odradek", "server-start", *words),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    return daemon.pid
