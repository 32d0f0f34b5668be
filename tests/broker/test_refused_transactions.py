"""Refused transactional ids: one line each, and never too many."""

from __future__ import annotations

import pytest

from odradek.broker.refused_transactions import (
    IDS_MAX,
    LINES_MAX,
    PERIOD_MS,
    SHOWN,
    RefusedTransactions,
)


def refuse(refused: RefusedTransactions, name: str, monotonic_ms: int) -> None:
    """A producer asks."""
    refused.log(name, client_id="c", client_host="/h", monotonic_ms=monotonic_ms)


def test_an_id_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    refused = RefusedTransactions()
    for time_ms in range(0, 10 * PERIOD_MS, PERIOD_MS // 2):
        refuse(refused, "tx", time_ms)
    assert len(caplog.messages) == 1
    assert "tx of client c at /h" in caplog.messages[0]


def test_an_id_beyond_the_lines_of_a_period_is_logged_in_a_later_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused = RefusedTransactions()
    for number in range(3 * LINES_MAX):
        refuse(refused, f"tx-{number}", 0)
    assert len(caplog.messages) == LINES_MAX
    refuse(refused, f"tx-{LINES_MAX}", PERIOD_MS - 1)
    assert len(caplog.messages) == LINES_MAX
    refuse(refused, f"tx-{LINES_MAX}", PERIOD_MS)
    assert f"tx-{LINES_MAX} " in caplog.messages[-1]


def test_the_ids_that_are_remembered_and_their_length_are_bounded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused = RefusedTransactions()
    for number in range(IDS_MAX + 100):
        refuse(refused, f"{number}-".ljust(30_000, "x"), number * PERIOD_MS)
    assert len(caplog.messages) == IDS_MAX
    assert "Further ids are not logged" in caplog.messages[-1]
    assert max(map(len, caplog.messages)) < SHOWN + 200
