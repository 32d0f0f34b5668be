"""A program that runs Apache Kafka's tools in one JVM: one of its own costs each 1.5 s or more."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import Self

from tests.support import maven
from tests.support.apache import JUDGE_VERSION, ToolResult, java_command

ANSWER_TIMEOUT_S = 90.0


class ApacheProgram:
    """One question a line of JSON, and one answer: what a tool prints up to its exit, its code."""

    def __init__(self, folder: Path, program: Path, *, log4j: str, heap: str) -> None:
        logging = folder / f"log4j-{program.stem}.properties"
        logging.write_text(log4j)
        libraries = maven.broker_libraries(JUDGE_VERSION)
        command = java_command(libraries, str(program), [], heap=heap)
        command.insert(1, f"-Dlog4j.configuration=file:{logging}")
        self._errors = folder / f"{program.stem}.log"
        with open(self._errors, "wb") as errors:
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def ask(self, question: object) -> ToolResult:
        """Waits ANSWER_TIMEOUT_S for the answer."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(question) + "\n")
        self._child.stdin.flush()
        late = threading.Timer(ANSWER_TIMEOUT_S, self._child.kill)
        late.start()
        line = self._child.stdout.readline()
        late.cancel()
        assert line, f"no answer to {question}:\n{self._errors.read_text()}"
        return ToolResult(**json.loads(line))

    def close(self) -> None:
        """End the JVM."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        try:
            self._child.wait(60)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(60)
        self._child.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
