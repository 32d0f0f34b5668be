"""The console tools side by side: ours in processes, Apache Kafka's in one JVM."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from odradek import command
from tests.odradek.apache_tool import ApacheProgram
from tests.odradek.topics_tools import as_kafka_exits
from tests.support.apache import (
    CONSOLE_CONSUMER_TOOL,
    CONSOLE_PRODUCER_TOOL,
    LOG4J_QUIET,
    ToolResult,
)

JAVA_PROGRAM = Path(__file__).parent / "java" / "ConsoleTools.java"
ANSWER_TIMEOUT_S = 90.0
PRODUCER, CONSUMER = "console-producer", "console-consumer"
MAIN_CLASSES = {PRODUCER: CONSOLE_PRODUCER_TOOL, CONSUMER: CONSOLE_CONSUMER_TOOL}

Tool = Callable[[str, Sequence[str], str], ToolResult]
"""Name, arguments, standard input."""


def our_command(name: str, arguments: Sequence[str]) -> list[str]:
    """A process of ours."""
    return [sys.executable, "-I", "-m", "odradek", name, *arguments]


def our_tool(name: str, arguments: Sequence[str], standard_input: str = "") -> ToolResult:
    """`odradek NAME` with these arguments, to its end."""
    done = subprocess.run(
        our_command(name, arguments),
        input=standard_input.encode(),
        capture_output=True,
        timeout=ANSWER_TIMEOUT_S,
        check=False,
    )
    return ToolResult(
        done.returncode,
        done.stdout.decode(errors="replace"),
        done.stderr.decode(errors="replace"),
    )


def our_tool_here(name: str, arguments: Sequence[str], standard_input: str = "") -> ToolResult:
    """The same in this process, in a tenth of the time: for commands that print no records.

    Only in the main thread, which alone may change what a signal does.
    """
    output, errors = io.StringIO(), io.StringIO()
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(standard_input.encode()))
    try:
        with redirect_stdout(output), redirect_stderr(errors):
            exit_code = command.main([name, *arguments])
    finally:
        sys.stdin = before
    return ToolResult(exit_code, output.getvalue(), errors.getvalue())


class ApacheTools(ApacheProgram):
    """Apache Kafka's tools."""

    def __init__(self, folder: Path) -> None:
        log4j = LOG4J_QUIET + "log4j.appender.stderr.Follow=true\n"
        super().__init__(folder, JAVA_PROGRAM, log4j=log4j, heap="160m")

    def __call__(self, name: str, arguments: Sequence[str], standard_input: str = "") -> ToolResult:
        """What the tool prints up to its exit, and the exit code."""
        return self.ask(
            {
                "main": MAIN_CLASSES[name],
                "arguments": list(arguments),
                "input": standard_input,
            }
        )


STAMP = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] ")
CLOCK = re.compile(r"\b(CreateTime|LogAppendTime):\d+")
CLIENTS_OWN = (
    "NetworkClient)",
    "Sender)",
    "Coordinator)",
    "KafkaConsumer)",
    ".Metadata)",
    ".ClientUtils)",
    "(librdkafka)",
    "(Consumer)",
)
"""Ends of lines in which a client library tells of trouble with brokers, each in its own words."""
STACK = ("\tat ", "\t... ", "Caused by: ")


def play(producer: Tool, consumer: Tool, address: str, lines: Sequence[str], prefix: str) -> str:
    """A conversation as text: each command line, what it printed, its exit code.

    lines    `p`, `c` or `t` (which makes topics), arguments, and behind <<< what is read; words are
             quoted as for a shell
    prefix   takes the place of `@`, so that conversations with one broker do not meet
    returns  the same text for all prefixes, times and addresses
    """
    said = []
    for line in lines:
        words, _, standard_input = line.partition(" <<< ")
        lexer = shlex.shlex(words.replace("@", prefix).replace("ADDR", address), posix=True)
        lexer.whitespace_split = True
        lexer.escape = lexer.commenters = ""
        kind, *arguments = lexer
        text = standard_input.encode().decode("unicode_escape")
        if kind == "t":
            result = our_tool("topics", ["--bootstrap-server", address, *arguments])
        elif kind == "p":
            result = producer(PRODUCER, arguments, text)
        else:
            result = consumer(CONSUMER, arguments, text)
        said.append(f"$ {line}")
        output = CLOCK.sub(r"\1:TIME", result.output)
        said += [f"  {line}" for line in output.split("\n")[:-1]]
        if not output.endswith("\n") and output:
            said.append(f"  {output.rpartition(chr(10))[2]}(no end of line)")
        said += [f"  ! {line}" for line in told(result.errors)]
        said.append(f"  exit code {as_kafka_exits(result.exit_code)}")
    return "\n".join(said).replace(prefix, "@").replace(address, "ADDR") + "\n"


def told(errors: str) -> list[str]:
    """What both tools tell on stderr: without help, times, stacks and what is a client's own."""
    lines = []
    for line in errors.splitlines():
        if line.startswith(("Option  ", "--")):
            break
        if line.startswith(STACK) or line.endswith(CLIENTS_OWN):
            continue
        lines.append(STAMP.sub("[TIME] ", line).rstrip())
    return lines
