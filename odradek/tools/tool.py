"""What the command-line tools have in common."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

VERSION: Final = "3.9.2"
"""Of the Kafka whose tools ours equal."""


def run_tool(run: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Run one action and see its output written; returns the exit code."""
    try:
        code = run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Nobody reads any more (`| head`). What was to be done is done; Java's streams say nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code
