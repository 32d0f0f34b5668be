"""The conversation that console tools are compared by, and what Apache Kafka 3.9.2 said in it.

`console_conversation.txt` has one command line a line; `tests.odradek.console_tools.play` says how
it is written.  `python -m tests.odradek.console_conversation` records Apache's answers anew.
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
"""Sections that are played at a time: most of it is waiting."""


def sections() -> dict[str, list[str]]:
    """Command lines by the comment above them; sections share no topics."""
    found: dict[str, list[str]] = {}
    for line in COMMAND_LINES.read_text("utf-8").splitlines():
        if line.startswith("# "):
            found[line[2:]] = lines = []
        else:
            lines.append(line)
    return found


def play_all(
    tool: Tool, address: str, prefix: str, *, at_once: int, first: Tool | None = None
) -> str:
    """The whole conversation with one tool.

    at_once  sections at a time
    first    plays the first section instead, in which no records are printed, in this thread
    """
    start, *rest = sections().values()
    with ThreadPoolExecutor(at_once) as pool:
        played = [pool.submit(play, tool, tool, address, lines, prefix) for lines in rest]
        instead = tool if first is None else first
        said = play(instead, instead, address, start, prefix)
        return said + "".join(one.result() for one in played)


def main() -> None:
    """Record what Apache's tools and broker say."""
    with (
        tempfile.TemporaryDirectory() as folder,
        apache_node(Path(folder)) as broker,
        ApacheTools(Path(folder)) as tools,
    ):
        lines = [line for section in sections().values() for line in section]
        RECORDED.write_text(play(tools, tools, broker.address, lines, "zz1zz"), "utf-8")


if __name__ == "__main__":
    main()
