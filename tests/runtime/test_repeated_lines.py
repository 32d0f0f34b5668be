"""Lines that clients cause are bounded."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from odradek.runtime.logging import PlainFormatter
from odradek.runtime.repeated_lines import KINDS_MAX, LINES_MAX, PERIOD_S, RepeatedLines


class Log:
    """A logger with the filter, its clock, and its lines."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.filter = RepeatedLines(lambda: self.now_s)
        self.stream = io.StringIO()
        self.logger = logging.getLogger("tests.repeated_lines")
        self.logger.propagate = False
        self.logger.setLevel(logging.INFO)
        handler = logging.StreamHandler(self.stream)
        handler.setFormatter(PlainFormatter())
        self.logger.handlers = [handler]
        self.logger.addFilter(self.filter)

    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    yield log
    log.logger.removeFilter(log.filter)


def test_lines_of_one_client_are_suppressed_and_those_of_another_logged(log: Log) -> None:
    for number in range(8_645):
        log.logger.warning("closing %s: %s", "10.0.0.1", f"frame {number} is 100 %s bad")
    log.logger.warning("closing %s: %s", "10.0.0.2", "other")
    lines = log.lines()
    assert len(lines) == LINES_MAX + 1
    assert lines[0].endswith("closing 10.0.0.1: frame 0 is 100 %s bad")
    assert lines[LINES_MAX - 1].endswith("(more like it are not logged for 10 s)")
    assert lines[LINES_MAX].endswith("closing 10.0.0.2: other")
    log.now_s = PERIOD_S
    log.logger.warning("closing %s: %s", "10.0.0.1", "again")
    assert log.lines()[-1].endswith(
        f"closing 10.0.0.1: again ({8_645 - LINES_MAX} more like it were not logged)"
    )


def test_lines_of_other_kinds_and_in_later_periods_are_logged(log: Log) -> None:
    for number in range(50):
        log.now_s += PERIOD_S / LINES_MAX
        log.logger.warning("slow %s", "10.0.0.1")
        log.logger.warning(f"a text of its own, {number}")  # noqa: G004
    assert len(log.lines()) == 100


def test_memory_of_kinds_is_bounded(log: Log) -> None:
    for number in range(3 * KINDS_MAX):
        log.logger.warning("closing %s", f"2001:db8::{number:x}")
    assert len(log.filter._kinds) <= KINDS_MAX + 1
    assert len(log.lines()) <= KINDS_MAX + LINES_MAX
    log.now_s = 2 * PERIOD_S
    log.logger.warning("closing %s", "2001:db8::ffff")
    assert len(log.filter._kinds) <= 3
