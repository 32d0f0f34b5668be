"""`python -m tests.compose`: build the images, run the compose files, and print what was shown.

A Docker engine is started where none runs, and ended.
Exit codes: 0 every check has passed; 1 one has failed, or an image cannot be built; 3 this machine
cannot run an engine or fetch Debian's packages, so that nothing was shown (0 with --if-possible).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Final

import pytest

from tests.compose.engine import CommandFailed, EngineUnavailable, engine, run
from tests.compose.project import compose_program

NOTHING_SHOWN: Final = 3
FOLDER: Final = str(Path(__file__).parent)


class Passed:
    """A plugin of pytest that counts."""

    def __init__(self) -> None:
        self.count = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.count += report.when == "call" and report.passed


def build_images() -> None:
    """The images of docker-compose.yml; once more when a package index did not respond."""
    began = monotonic()
    build = [*compose_program(), "build", "zookeeper-1", "broker-1"]
    try:
        run(build)
    except CommandFailed as error:
        print(f"test-compose: a build failed and is repeated:\n{error}", file=sys.stderr)
        run(build)
    print(f"test-compose: images built in {monotonic() - began:.0f} s", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run the checks; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.compose")
    parser.add_argument("--if-possible", action="store_true")
    options = parser.parse_args(arguments)
    # Like Ctrl-C: what was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    passed = Passed()
    try:
        with engine() as environment:
            os.environ.update(environment)
            build_images()
            selected = ["-q", "-s", "-m", "slow", "-p", "no:cacheprovider", FOLDER]
            code = pytest.main(selected, plugins=[passed])
    except EngineUnavailable as error:
        print(f"test-compose: NOTHING WAS SHOWN, 0 checks: {error}")
        return 0 if options.if_possible else NOTHING_SHOWN
    except CommandFailed as error:
        print(f"test-compose: FAILED: {error}")
        return 1
    verdict = "passed" if code == 0 else "passed, others FAILED"
    print(f"test-compose: {passed.count} checks of the images and compose files {verdict}")
    return 0 if code == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
