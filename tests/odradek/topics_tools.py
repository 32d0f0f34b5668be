"""Runs `odradek topics` in this process, and plays command lines with it and with Apache's."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout

from odradek.tools.run import WRONG_USAGE
from odradek.tools.topics import command as topics
from tests.support.apache import LOG4J_QUIET, ToolResult

LOG4J_SILENT = LOG4J_QUIET.replace("WARN, stderr", "OFF, stderr")

Tool = Callable[[Sequence[str]], ToolResult]


def our_tool(arguments: Sequence[str]) -> ToolResult:
    """`odradek topics` with these arguments."""
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        exit_code = topics.main(arguments)
    return ToolResult(exit_code, output.getvalue(), errors.getvalue())


def as_kafka_exits(exit_code: int) -> int:
    """The exit code of Kafka's tools, which is the same for wrong usage and for a failure."""
    return 1 if exit_code == WRONG_USAGE else exit_code


def play(tool: Tool, address: str, command_lines: Sequence[str], prefix: str) -> str:
    """Run command lines; returns each with its output and its exit code.

    command_lines  quoted as for a shell, without backslashes
    prefix         replaces `@`, so that two tools can use one broker; must not occur in any other
                   output
    returns        a text that does not depend on prefix, topic ids and address
    """
    lines = []
    for line in command_lines:
        lexer = shlex.shlex(line.replace("@", prefix), posix=True)
        lexer.whitespace_split = True
        lexer.escape = lexer.commenters = ""
        result = tool(["--bootstrap-server", address, *lexer])
        lines.append(f"$ {line}".rstrip())
        lines += [f"  {line}" for line in result.output.splitlines()]
        # After its first line Kafka's tool prints a stack trace or its help.
        lines += [f"  ! {line}" for line in result.errors.splitlines()[:1]]
        lines.append(f"  exit code {as_kafka_exits(result.exit_code)}")
    return masked("\n".join(lines).replace(prefix, "@")) + "\n"


def masked(text: str) -> str:
    """Replace topic ids, which each broker generates."""
    return re.sub(r"TopicId: [\w-]{22}\t", "TopicId: ID\t", text)
