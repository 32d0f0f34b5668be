"""The command lines by which the topic tools are compared, and the output of Apache Kafka 3.9.2.

`conversation.txt` has one command line per line; `@` is the prefix of every topic name.
`python -m tests.odradek.topics_conversation` records the output of Apache's tool again.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from tests.odradek.console_tools import ApacheTools
from tests.odradek.topics_tools import LOG4J_SILENT, play
from tests.support.apache import apache_node

COMMAND_LINES = Path(__file__).with_name("conversation.txt")
RECORDED = Path(__file__).with_name("conversation_3_9_2.txt")


def command_lines() -> list[str]:
    """The arguments of each command; an empty line is a command without arguments."""
    return COMMAND_LINES.read_text().splitlines()


def main() -> None:
    """Record the output of Apache's tool with Apache's broker."""
    with (
        tempfile.TemporaryDirectory() as folder,
        apache_node(Path(folder)) as broker,
        ApacheTools(Path(folder), log4j=LOG4J_SILENT) as tools,
    ):
        tool = partial(tools, "topics")
        RECORDED.write_text(play(tool, broker.address, command_lines(), "zz1zz"))


if __name__ == "__main__":
    main()
