"""The conversation that topic tools are compared by, and what Apache Kafka 3.9.2 said in it.

`conversation.txt` has one command line a line; `@` is the beginning of every topic's name.
`python -m tests.odradek.topics_conversation` records Apache's answers anew.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.odradek.topics_tools import ApacheTool, play
from tests.support.apache import apache_node

COMMAND_LINES = Path(__file__).with_name("conversation.txt")
RECORDED = Path(__file__).with_name("conversation_3_9_2.txt")


def command_lines() -> list[str]:
    """The arguments of each command; an empty line is the tool without any."""
    return COMMAND_LINES.read_text().splitlines()


def main() -> None:
    """Record what Apache's tool and broker say."""
    with (
        tempfile.TemporaryDirectory() as folder,
        apache_node(Path(folder)) as broker,
        ApacheTool(Path(folder)) as tool,
    ):
        RECORDED.write_text(play(tool, broker.address, command_lines(), "zz1zz"))


if __name__ == "__main__":
    main()
