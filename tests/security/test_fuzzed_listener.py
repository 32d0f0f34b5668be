"""Fuzzed frames before and after authentication: each connection is responded to or closed.

`make campaign-fuzz` does the same guided by coverage, with a million frames.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.security.fuzzed_listener import fuzzed_listener, mutated, seeds

EXECUTIONS = 1_500


def test_no_input_breaks_the_listener(tmp_path: Path) -> None:
    random = Random(7)
    inputs = seeds(random)
    with fuzzed_listener(tmp_path) as listener:
        for content in inputs:
            listener.run(content)
        for _ in range(EXECUTIONS):
            listener.run(mutated(random, inputs))
        assert listener.frames > EXECUTIONS
