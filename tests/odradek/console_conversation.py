"""The command lines by which the console tools are compared, and the output of Apache Kafka 3.9.2.

`console_conversation.txt` has one command line per line, in the form that
`tests.odradek.console_tools.play` describes.  `python -m tests.odradek.console_conversation`
records the output of Apache's tools again.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.odradek.console_tools import ApacheTools, Tool, play
from tests.support.apache import apache_node

COMMAND_LINES = Path(__file__).with_name("console_conversation.txt")
RECORDED = Path(__file__).with_name("console_conversation_3_9_2.txt")
AT_ONCE = 3
"""Sections that run at the same time, since they mostly wait."""


def sections() -> dict[str, list[str]]:
    """Command lines by the comment above them; sections do not share topics."""
    lines_of_sections: dict[str, list[str]] = {}
    for line in COMMAND_LINES.read_text("utf-8").splitlines():
        if line.startswith("# "):
            lines_of_sections[line[2:]] = lines = []
        else:
            lines.append(line)
    return lines_of_sections


def play_all(
    tool: Tool, address: str, prefix: str, *, at_once: int, first: Tool | None = None
) -> str:
    """Run all command lines with one tool.

    at_once  number of sections that run at the same time
    first    the tool for the first section, which prints no records; it runs in this thread
    """
    start, *rest = sections().values()
    with ThreadPoolExecutor(at_once) as pool:
        played = [pool.submit(play, tool, tool, address, lines, prefix) for lines in rest]
        instead = tool if first is None else first
        text = play(instead, instead, address, start, prefix)
        return text + "".join(result.result() for result in played)


def main() -> None:
    """Record the output of Apache's tools with Apache's broker."""
    with (
        tempfile.TemporaryDirectory() as folder,
        apache_node(Path(folder)) as broker,
        ApacheTools(Path(folder)) as tools,
    ):
        lines = [line for section in sections().values() for line in section]
        RECORDED.write_text(play(tools, tools, broker.address, lines, "zz1zz"), "utf-8")


if __name__ == "__main__":
    main()
