"""The command lines by which the transaction tools are compared, and the output of Apache's.

`transactions_conversation.txt` has one command line per line; one that starts with `!` is run
without the address of the broker, for which `@` stands.
`python -m tests.odradek.transactions_conversation` records the output of Apache's tool again, with
Apache's broker.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.odradek.console_tools import ApacheTools, our_tool_here
from tests.odradek.topics_tools import LOG4J_SILENT, as_kafka_exits
from tests.odradek.transactions_conversation_scene import SETTINGS, make_scene
from tests.support.apache import ToolResult, apache_node

COMMAND_LINES: Final = Path(__file__).with_suffix(".txt")
RECORDED: Final = COMMAND_LINES.with_stem(f"{COMMAND_LINES.stem}_3_9_2")
TOOL: Final = "transactions"

Tool = Callable[[Sequence[str]], ToolResult]

_TIME: Final = re.compile(r"\b1[78]\d{11}\b *")
_DURATION: Final = re.compile(r"(?<=\bTIME_IN_MSECS\t)\d\d+ *(?=\t)")
"""Offsets in the same place have one digit."""


def command_lines() -> list[str]:
    """The arguments of each command."""
    return COMMAND_LINES.read_text().splitlines()


def our_tool(arguments: Sequence[str]) -> ToolResult:
    """`odradek transactions` with these arguments."""
    return our_tool_here(TOOL, arguments)


def play(tool: Tool, address: str, lines: Sequence[str]) -> str:
    """Run command lines; returns each with its output and its exit code.

    returns  a text that does not depend on the address and on times; rows are sorted, since brokers
             list ids and producers in the order of hash maps
    """
    conversation = []
    for line in lines:
        words = shlex.split(line.removeprefix("!").replace("@", address))
        if not line.startswith("!"):
            words = ["--bootstrap-server", address, *words]
        result = tool(words)
        conversation.append(f"$ {line}".rstrip())
        rows = result.output.splitlines()
        if rows and rows[0].endswith("\t"):
            rows[1:] = sorted(rows[1:])
        shown = ["usage: ..."] if rows and rows[0].startswith("usage: ") else rows
        conversation += [f"  {row}".rstrip(" ") for row in shown]
        conversation += [f"  ! {text}" for text in _errors(result.errors)]
        conversation.append(f"  exit code {as_kafka_exits(result.exit_code)}")
    return masked("\n".join(conversation)) + "\n"


def _errors(text: str) -> list[str]:
    """The lines without usage and stack traces, which differ between the tools."""
    if text.startswith("usage: "):
        wrong = text.partition(" error:")[2].partition("\n\nDid you mean")[0]
        # Apache's tool breaks lines anywhere.
        return [f"error: {' '.join(wrong.split()).replace('-- ', '--')}"]
    return text.splitlines()


def masked(text: str) -> str:
    """Replace times, durations and ports, and what Apache's tool of 3.9 does not have."""
    text = re.sub(r" \(Commit:\w+\)", "", text).replace(", 'forceTerminateTransaction'", "")
    text = _TIME.sub("TIME_IN_MSECS", text)
    text = _DURATION.sub("DURATION", text)
    return re.sub(r"127\.0\.0\.1:\d{4,5}", "ADDRESS", text)


def main() -> None:
    """Record the output of Apache's tool with Apache's broker."""
    with (
        tempfile.TemporaryDirectory() as name,
        apache_node(Path(name), overrides=SETTINGS) as broker,
        ApacheTools(Path(name), log4j=LOG4J_SILENT) as tools,
    ):
        make_scene(broker.address)
        RECORDED.write_text(play(lambda words: tools(TOOL, words), broker.address, command_lines()))


if __name__ == "__main__":
    main()
