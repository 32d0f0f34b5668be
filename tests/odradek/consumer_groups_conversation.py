"""The command lines by which the consumer group tools are compared, and the output of Apache's.

`consumer_groups_conversation.txt` has one command line per line; `@` is the folder of the files,
and a line that starts with `!` is run without the address of the broker.
`python -m tests.odradek.consumer_groups_conversation` records the output of Apache's tool with our
broker again.
"""

from __future__ import annotations

import io
import re
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path

from odradek.tools.consumer_groups import command as consumer_groups
from tests.odradek.console_tools import ApacheTools
from tests.odradek.consumer_groups_conversation_scene import scene
from tests.odradek.topics_tools import LOG4J_SILENT, Tool, as_kafka_exits
from tests.support.apache import ToolResult
from tests.support.broker_process import odradek_broker

COMMAND_LINES = Path(__file__).with_suffix(".txt")
RECORDED = COMMAND_LINES.with_stem(f"{COMMAND_LINES.stem}_3_9_2")
LOG4J = LOG4J_SILENT + "log4j.logger.org.apache.kafka.tools.consumer.group=WARN\n"
NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}
"""The first member of a group does not wait for others."""
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


@contextmanager
def apache_tool(folder: Path) -> Iterator[Tool]:
    """Within, Apache's tool can be run, which logs its warnings."""
    with ApacheTools(folder, log4j=LOG4J) as tools:
        yield partial(tools, "consumer-groups")


def play(tool: Tool, address: str, lines: Sequence[str], folder: Path) -> str:
    """Run command lines; returns each with its output and its exit code.

    folder   the files of the scene
    returns  a text that does not depend on address, folder and member ids
    """
    output = []
    for line in lines:
        words = shlex.split(line.removeprefix("!").replace("@", str(folder)))
        if not line.startswith("!"):
            words = ["--bootstrap-server", address, *words]
        result = tool(words)
        output.append(f"$ {line}".rstrip())
        output += [f"  {text}" for text in with_tables_on_one_line(result.output).split("\n")]
        output += [f"  ! {text}" for text in _errors(result.errors)]
        output.append(f"  exit code {_as_kafka_exits(result)}")
    return masked("\n".join(output).replace(str(folder), "@")) + "\n"


def _as_kafka_exits(result: ToolResult) -> int:
    """The exit code of Kafka's tool, which is 0 when an action fails or has a wrong value."""
    is_acting = "Executing consumer group command failed" in result.output
    return 0 if is_acting else as_kafka_exits(result.exit_code)


TABLE = re.compile(
    r"^(GROUP +TOPIC +PARTITION +NEW-OFFSET|TOPIC +PARTITION +STATUS) *\n(.+\n)*", re.M
)
"""Tables that our tool prints as lines and Apache's as one line without a line feed."""


def with_tables_on_one_line(output: str) -> str:
    """The output with the tables of TABLE as Apache's tool prints them."""
    return TABLE.sub(lambda table: table[0].replace("\n", ""), output)


def _errors(text: str) -> list[str]:
    """Errors without stack traces and without the help, which differ between the tools."""
    output = []
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
            output.append(re.sub(r"^\[[-\d]+ [\d:,]+\] ", "[TIME] ", line))
    return output


def masked(text: str) -> str:
    """Replace what differs between runs: ids, ports and Java's object hashes."""
    text = re.sub(r" \(attempted merging values .*\)", "", text)
    text = re.sub(r"\n   at \[Source: .*", "", text)
    text = re.sub(r"(TimeoutException|REQUEST_TIMED_OUT): .*", r"\1: LATE", text)
    text = re.sub(UUID, "00000000-0000-0000-0000-000000000000", text)
    return re.sub(r"127\.0\.0\.1:\d{5}", "127.0.0.1:PORTS", text)


def main() -> None:
    """Record the output of Apache's tool with our broker."""
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
