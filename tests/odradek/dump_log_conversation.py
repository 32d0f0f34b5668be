"""The command lines by which the tools that dump logs are compared, and the output of Apache's.

`dump_log_conversation.txt` has one command line per line; `@` stands for the folder of the files
that `dump_log_scene` makes, `Z` for the name of a segment that begins at offset 0.
`python -m tests.odradek.dump_log_conversation` records the output of Apache's tool again.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.odradek.cluster_tools import printed
from tests.odradek.console_tools import ApacheTools, our_tool_here
from tests.odradek.dump_log_scene import NAME, make_scene
from tests.odradek.topics_tools import LOG4J_SILENT, as_kafka_exits
from tests.support.apache import ToolResult

COMMAND_LINES: Final = Path(__file__).with_suffix(".txt")
RECORDED: Final = COMMAND_LINES.with_stem(f"{COMMAND_LINES.stem}_3_9_2")
TOOL: Final = "dump-log"
EXCEPTION: Final = re.compile(r"^(?:[a-z]\w*\.)+[A-Z][\w$]*: ")

OUR_WORDS: Final = {
    'Exception in thread "main" java.util.NoSuchElementException': "No batch is stored there",
    "begin 0, end 20, length 16": "wrong.checkpoint is not the name of a snapshot",
    "! @/golden/nowhere/Z.log": "! odradek: @/golden/nowhere/Z.log: No such file or directory",
    "Error reading field 'producer_entries': Error reading field 'current_txn_first_offset': "
    "java.nio.BufferUnderflowException": "the file ends too early",
    "from key's buffer due to: null.": "from key's buffer due to: OffsetCommitKey version 1: "
    "unpack_from requires a buffer of at least 10 bytes for unpacking 2 bytes at offset 8 (actual "
    "buffer size is 9).",
}
"""What Apache's tool says by a class of Java -> what ours says."""

Tool = Callable[[Sequence[str]], ToolResult]


def our_tool(arguments: Sequence[str]) -> ToolResult:
    """`odradek dump-log` with these arguments."""
    return our_tool_here(TOOL, arguments)


def play(tool: Tool, folder: Path) -> str:
    """Run the command lines on the files in `folder`; returns each with its output and exit code.

    returns  a text that does not depend on the folder, nor on the classes of Java's exceptions
    """
    lines = []
    for line in COMMAND_LINES.read_text().splitlines():
        result = tool(shlex.split(line.replace("@", str(folder)).replace("Z.", f"{NAME}.")))
        lines.append(f"$ {line}".rstrip())
        lines += [f"  {row}".rstrip() for row in result.output.splitlines()]
        lines += [
            f"  ! {EXCEPTION.sub('', row)}"
            for row in printed(result.errors, keeps_exceptions=True)
            if row
        ]
        lines.append(f"  exit code {as_kafka_exits(result.exit_code)}")
    return "\n".join(lines).replace(str(folder), "@").replace(f"{NAME}.", "Z.") + "\n"


def recorded_in_our_words() -> str:
    """The recorded output, with our words for the classes of Java."""
    text = RECORDED.read_text()
    for theirs, ours in OUR_WORDS.items():
        text = text.replace(f"{theirs}\n", f"{ours}\n")
    return text


def main() -> None:
    """Record the output of Apache's tool."""
    with tempfile.TemporaryDirectory() as name:
        make_scene(Path(name) / "scene")
        with ApacheTools(Path(name), log4j=LOG4J_SILENT) as tools:
            RECORDED.write_text(play(lambda words: tools(TOOL, words), Path(name) / "scene"))


if __name__ == "__main__":
    main()
