"""Runs Apache Kafka's tools in one JVM, since the start of a JVM takes 1.5 s or more."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import Self

from tests.support.apache import JUDGE_VERSION, ToolResult, program_command

RESPONSE_TIMEOUT_S = 90.0


class ApacheProgram:
    """Takes a command line as a line of JSON; returns the output of the tool and its exit code."""

    def __init__(
        self, folder: Path, program: Path, *, log4j: str, heap: str, version: str = JUDGE_VERSION
    ) -> None:
        logging = folder / f"log4j-{program.stem}.properties"
        logging.write_text(log4j)
        command = program_command(program, heap=heap, version=version)
        command.insert(1, f"-Dlog4j.configuration=file:{logging}")
        self._errors = folder / f"{program.stem}.log"
        with open(self._errors, "wb") as errors:
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def ask(self, question: object) -> ToolResult:
        """Run a tool; fails after RESPONSE_TIMEOUT_S."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(question) + "\n")
        self._child.stdin.flush()
        late = threading.Timer(RESPONSE_TIMEOUT_S, self._child.kill)
        late.start()
        line = self._child.stdout.readline()
        late.cancel()
        assert line, f"no response to {question}:\n{self._errors.read_text()}"
        return ToolResult(**json.loads(line))

    def close(self) -> None:
        """End the JVM."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        try:
            self._child.wait(RESPONSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(RESPONSE_TIMEOUT_S)
        self._child.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
