"""What a test has left open in a broker."""

from __future__ import annotations

from typing import Final

from odradek.testing.handle import KafkaHandle
from odradek.testing.waiting import NotReached, wait_for

CLOSING_TIMEOUT_S: Final = 2.0
"""Some clients return from close before the broker has handled their last request."""


def find_leaks(kafka: KafkaHandle, known: set[str]) -> list[str]:
    """A line for each transaction that is open and each group that has members.

    known    lines of earlier tests, which are left out; those that are found are added
    returns  nothing for a broker that is away
    raises   KafkaError
    """
    from odradek.tools.client import ClientError

    def found() -> set[str]:
        transactions = [f"the transaction of {one} is open" for one in kafka.open_transactions()]
        groups = [f"group {one} has members" for one in kafka.active_groups()]
        return {*transactions, *groups} - known

    try:
        try:
            wait_for(lambda: not found(), timeout_s=CLOSING_TIMEOUT_S)
            return []
        except NotReached:
            leaks = sorted(found())
            known.update(leaks)
            return leaks
    except ClientError:
        return []
