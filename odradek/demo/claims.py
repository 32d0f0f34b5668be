"""The claims of the demos: promises with the figures that were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

EARLY_MS: Final = 1_000
"""A follower may have been caught up for the last time so long before the cut."""
LATE_MS: Final = 5_000
"""For the change of the in-sync replicas, on a machine that is busy."""
TOO_FEW: Final = ("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
"""Errors 19 and 20."""


class DemoError(Exception):
    """The cluster is not in a state that the demo can begin with; the message is one line."""


@dataclass(frozen=True)
class Measured:
    """The figures of an isr-cut; times in ms."""

    lag_ms: int
    wait_all_ms: float
    """The longest wait of acks=-1 from the cut until the network was joined."""
    wait_leader_ms: float
    wait_none_ms: float
    alone_after_ms: float | None
    """How long after the cut the leader was alone in sync; None: it never was."""
    errors_alone: Mapping[str, int]
    """Errors with min.insync.replicas=2 while the leader was alone: name -> number of records."""
    acknowledged_alone: int
    """Records acknowledged with min.insync.replicas=2 while the leader was alone."""
    acknowledged_again: int
    """Records acknowledged with min.insync.replicas=2 once all replicas were in sync again."""
    is_complete: bool
    """Whether all replicas got in sync again, with equal log end offsets."""
    acknowledged: int
    lost: int
    """Records that were acknowledged, or sent with acks=0, and could not be read at the end."""


class Claim(NamedTuple):
    """One promise, with the figure that was measured."""

    text: str
    holds: bool


def print_claims(claims: Sequence[Claim]) -> int:
    """Print each claim, and PASS or FAIL; returns the exit code."""
    for claim in claims:
        print(f"{'ok    ' if claim.holds else 'NOT OK'}  {claim.text}")
    has_passed = all(claim.holds for claim in claims)
    print("PASS" if has_passed else "FAIL", flush=True)
    return 0 if has_passed else 1


def claims_of(measured: Measured) -> Sequence[Claim]:
    """Every promise, in the order in which they are printed."""
    lag_ms = measured.lag_ms
    # The leader looks every half of the lag for followers that are out of sync.
    is_in_time = lag_ms - EARLY_MS <= measured.wait_all_ms <= lag_ms * 3 / 2 + LATE_MS
    alone = measured.alone_after_ms
    errors = ", ".join(f"{name} {count}" for name, count in sorted(measured.errors_alone.items()))
    return [
        Claim(
            "the leader was alone in sync "
            + ("never" if alone is None else f"{_seconds(alone)} after the cut"),
            alone is not None,
        ),
        Claim(
            f"acks=-1 waited {_seconds(measured.wait_all_ms)} and went on "
            f"(replica.lag.time.max.ms is {_seconds(lag_ms)})",
            is_in_time,
        ),
        _never_waits("acks=1", measured.wait_leader_ms, lag_ms),
        _never_waits("acks=0", measured.wait_none_ms, lag_ms),
        Claim(
            f"min.insync.replicas=2 with a leader alone: {measured.acknowledged_alone} records "
            f"acknowledged; errors: {errors or 'none'}",
            not measured.acknowledged_alone
            and any(measured.errors_alone.get(name) for name in TOO_FEW),
        ),
        Claim(
            "all replicas are in sync again and have the same log end offset", measured.is_complete
        ),
        Claim(
            f"min.insync.replicas=2 goes on: {measured.acknowledged_again} records acknowledged",
            measured.acknowledged_again > 0,
        ),
        Claim(
            f"{measured.acknowledged} records acknowledged, {measured.lost} of them lost",
            measured.acknowledged > 0 and not measured.lost,
        ),
    ]


def _never_waits(name: str, wait_ms: float, lag_ms: int) -> Claim:
    return Claim(f"{name} waited {_seconds(wait_ms)} at most", wait_ms < lag_ms / 2)


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.1f} s"
