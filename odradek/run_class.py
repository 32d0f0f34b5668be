"""`odradek run-class CLASS`: run the tool that takes the place of a Java class of Apache Kafka.

The options of `kafka-run-class.sh` before the class (-daemon, -name NAME, -loggc) are for a JVM
and have no effect.
Exit codes: those of the tool; 1 for a class that no tool takes the place of.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from odradek.tools.shims.scripts import SCRIPTS, not_served, script_of_class

USAGE: Final = """\
usage: odradek run-class CLASS [ARGUMENT...]

There is no JVM: of these classes of Apache Kafka, the command beside each is run.
"""
WITHOUT_VALUE: Final = ("-daemon", "-loggc")
WITH_VALUE: Final = "-name"


def main(arguments: Sequence[str]) -> int:
    """Run the tool; returns its exit code."""
    words = list(arguments)
    while words and words[0] in (*WITHOUT_VALUE, WITH_VALUE):
        del words[: 2 if words[0] == WITH_VALUE else 1]
    if not words or words[0] == "--help":
        print(usage(), file=sys.stderr)
        return 0 if words else 1
    script = script_of_class(words[0])
    if script is None:
        print(
            f"odradek run-class: there is no JVM to run {words[0]}; run it with the scripts of "
            "Apache Kafka (`odradek run-class --help` lists the classes that have a command)",
            file=sys.stderr,
        )
        return 1
    if script.command is None:
        print(not_served(script), file=sys.stderr)
        return 1
    from odradek.command import main as run

    return run([script.command, *words[1:]])


def usage() -> str:
    """The classes, and the command of each."""
    rows = [
        f"  {name:62} odradek {script.command}"
        for script in SCRIPTS
        if script.command is not None
        for name in script.classes
    ]
    return "\n".join([USAGE, *rows])
