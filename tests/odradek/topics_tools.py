"""The two topic tools side by side: ours in this process, Apache Kafka's in one JVM."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Self

from odradek import topics
from tests.support import maven
from tests.support.apache import JUDGE_VERSION, LOG4J_QUIET, ToolResult, java_command

JAVA_PROGRAM = Path(__file__).parent / "java" / "TopicCommands.java"
ANSWER_TIMEOUT_S = 90.0
LOG4J_SILENT = LOG4J_QUIET.replace("WARN, stderr", "OFF, stderr")

Tool = Callable[[Sequence[str]], ToolResult]


def our_tool(arguments: Sequence[str]) -> ToolResult:
    """`odradek topics` with these arguments."""
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        exit_code = topics.main(arguments)
    return ToolResult(exit_code, output.getvalue(), errors.getvalue())


class ApacheTool:
    """Apache Kafka's TopicCommand; starting a JVM for every command line would cost 1.5 s each."""

    def __init__(
        self, folder: Path, *, program: Path = JAVA_PROGRAM, log4j: str = LOG4J_SILENT
    ) -> None:
        """program  another tool's, with the same conversation"""
        logging = folder / "log4j-tool.properties"
        logging.write_text(log4j)
        libraries = maven.broker_libraries(JUDGE_VERSION)
        command = java_command(libraries, str(program), [], heap="128m")
        command.insert(1, f"-Dlog4j.configuration=file:{logging}")
        self._errors = folder / f"{program.stem}.log"
        with open(self._errors, "wb") as errors:
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def __call__(self, arguments: Sequence[str]) -> ToolResult:
        """What the tool prints up to its exit, and the exit code."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(list(arguments)) + "\n")
        self._child.stdin.flush()
        late = threading.Timer(ANSWER_TIMEOUT_S, self._child.kill)
        late.start()
        line = self._child.stdout.readline()
        late.cancel()
        assert line, f"no answer to {arguments}:\n{self._errors.read_text()}"
        return ToolResult(**json.loads(line))

    def close(self) -> None:
        """End the JVM."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(10)
        self._child.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def play(tool: Tool, address: str, command_lines: Sequence[str], prefix: str) -> str:
    """A conversation as text: each command line, what it printed, its exit code.

    command_lines  quoted as for a shell, without backslashes
    prefix         takes the place of `@` in them, so that two tools can have the same conversation
                   with one broker; must not be part of anything else that is printed
    returns        the same text for all prefixes, topic ids and addresses
    """
    lines = []
    for line in command_lines:
        lexer = shlex.shlex(line.replace("@", prefix), posix=True)
        lexer.whitespace_split = True
        lexer.escape = lexer.commenters = ""
        result = tool(["--bootstrap-server", address, *lexer])
        lines.append(f"$ {line}".rstrip())
        lines += [f"  {line}" for line in result.output.splitlines()]
        # Behind its first line Kafka's tool prints a stack or its own help.
        lines += [f"  ! {line}" for line in result.errors.splitlines()[:1]]
        lines.append(f"  exit code {result.exit_code}")
    return masked("\n".join(lines).replace(prefix, "@")) + "\n"


def masked(text: str) -> str:
    """Without topic ids, which every broker makes itself."""
    return re.sub(r"TopicId: [\w-]{22}\t", "TopicId: ID\t", text)
