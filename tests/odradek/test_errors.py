"""The texts of error codes are those of Kafka's class Errors."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from odradek.tools.errors import error_text
from tests.support.apache import program_command

PROGRAM = Path(__file__).parent / "java" / "ErrorTexts.java"
TIMEOUT_S = 120.0


@pytest.mark.judge
def test_every_error_code_of_kafka_has_its_text() -> None:
    command = program_command(PROGRAM, heap="128m")
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(rows) == 128
    assert [error_text(int(code)) for code, _, _ in rows] == [text for _, _, text in rows]
