"""The conversation that consumer group tools are compared by, and what Apache's 3.9.2 said in it.

`consumer_groups_conversation.txt` has one command line a line; `@` is the folder of the files, and
`!` before a line leaves out the address of the broker.
`python -m tests.odradek.consumer_groups_conversation` records what Apache's tool says before a
broker of ours.
"""

from __future__ import annotations

import io
import re
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from odradek.tools.consumer_groups import command as consumer_groups
from tests.odradek.consumer_groups_conversation_scene import scene
from tests.odradek.topics_tools import LOG4J_SILENT, ApacheTool, Tool, as_kafka_exits
from tests.support.apache import ToolResult
from tests.support.broker_process import odradek_broker

COMMAND_LINES = Path(__file__).with_suffix(".txt")
RECORDED = COMMAND_LINES.with_stem(f"{COMMAND_LINES.stem}_3_9_2")
JAVA_PROGRAM = Path(__file__).parent / "java" / "ConsumerGroupCommands.java"
LOG4J = (
    LOG4J_SILENT
    + "log4j.appender.stderr.Follow=true\n"
    + "log4j.logger.org.apache.kafka.tools.consumer.group=WARN\n"
)
NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}
"""The first member of a group need not wait for others."""
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def command_lines() -> list[str]:
    """The arguments of each command."""
    return COMMAND_LINES.read_text().splitlines()


def our_tool(arguments: Sequence[str]) -> ToolResult:
    """`odradek consumer-groups` with these arguments."""
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        exit_code = consumer_groups.main(arguments)
    return ToolResult(exit_code, output.getvalue(), errors.getvalue())


def apache_tool(folder: Path) -> ApacheTool:
    """Apache's tool, with its own warnings."""
    return ApacheTool(folder, program=JAVA_PROGRAM, log4j=LOG4J)


def play(tool: Tool, address: str, lines: Sequence[str], folder: Path) -> str:
    """A conversation as text: each command line, what it printed, its exit code.

    folder   the files of the scene
    returns  the same text for all addresses, folders and member ids
    """
    told = []
    for line in lines:
        words = shlex.split(line.removeprefix("!").replace("@", str(folder)))
        if not line.startswith("!"):
            words = ["--bootstrap-server", address, *words]
        result = tool(words)
        told.append(f"$ {line}".rstrip())
        told += [f"  {text}" for text in _with_tables_on_one_line(result.output).split("\n")]
        told += [f"  ! {text}" for text in _errors(result.errors)]
        told.append(f"  exit code {_as_kafka_exits(result)}")
    return masked("\n".join(told).replace(str(folder), "@")) + "\n"


def _as_kafka_exits(result: ToolResult) -> int:
    """Kafka's tool reports wrong values while it acts, and exits with 0 as after all that fails."""
    is_acting = "Executing consumer group command failed" in result.output
    return 0 if is_acting else as_kafka_exits(result.exit_code)


TABLE = re.compile(
    r"^(GROUP +TOPIC +PARTITION +NEW-OFFSET|TOPIC +PARTITION +STATUS) *\n(.+\n)*", re.M
)
"""What our tool prints in lines where Apache's has one without an end."""


def _with_tables_on_one_line(output: str) -> str:
    return TABLE.sub(lambda table: table[0].replace("\n", ""), output)


def _errors(text: str) -> list[str]:
    """Without stacks of Java, and without the help, which each tool words itself."""
    told = []
    is_stack = False
    for line in text.splitlines():
        if line.startswith(("Option  ", "--")):
            break
        line = re.sub(r'^Exception in thread "main" [\w.]+: ', "", line)
        is_stack = (
            line.startswith(("\t", "Caused by: "))
            or bool(re.match(r"(java|com|org|joptsimple)\.[\w.]+(Exception|Error)", line))
            or (is_stack and line.startswith(" at ["))
        )
        if not is_stack:
            told.append(re.sub(r"^\[[-\d]+ [\d:,]+\] ", "[TIME] ", line))
    return told


def masked(text: str) -> str:
    """Without what differs from one time to the next: ids and ports, and objects of Java."""
    text = re.sub(r" \(attempted merging values .*\)", "", text)
    text = re.sub(r"\n   at \[Source: .*", "", text)
    text = re.sub(r"(TimeoutException: ).*", r"\1LATE", text)
    text = re.sub(UUID, "00000000-0000-0000-0000-000000000000", text)
    return re.sub(r"127\.0\.0\.1:\d{5}", "127.0.0.1:PORTS", text)


def main() -> None:
    """Record what Apache's tool says before a broker of ours."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            odradek_broker(folder, overrides=NO_DELAY) as broker,
            apache_tool(folder) as tool,
            scene(broker.address, folder),
        ):
            RECORDED.write_text(play(tool, broker.address, command_lines(), folder))


if __name__ == "__main__":
    main()
