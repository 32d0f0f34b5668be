"""`python -m tests.plugin.repeat [RUNS]`: the sample project again and again, until a run fails."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Final

from tests.plugin.project_run import PASSED, copy_project, left_by_brokers, run_pytest

RUNS: Final = 20


def main(words: list[str]) -> int:
    """Exit code 1 after the first run that fails; its output is printed."""
    runs = int(words[0]) if words else RUNS
    for number in range(1, runs + 1):
        start_s = perf_counter()
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            copy_project(folder)
            done = run_pytest(folder, "-q", "-n", "4", "--kafka-leaks=fail")
            left = left_by_brokers(folder)
        if done.returncode or PASSED not in done.stdout or left:
            print(done.stdout, done.stderr, f"left: {left}" if left else "", sep="\n")
            print(f"run {number} of {runs} failed")
            return 1
        print(f"run {number} of {runs}: {PASSED}, {perf_counter() - start_s:.1f} s", flush=True)
    print(f"{runs} runs in a row passed, with 4 workers")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
