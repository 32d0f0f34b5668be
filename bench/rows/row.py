"""What a row is: a measurement, the numbers it gives, and what they ought to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bench.targets.target import Target

Values = dict[str, float]
"""Name of a metric to its value in one round."""

EVERYONE = ("odradek", "apache39", "apache43", "mock", "tansu")
CONSUMED = ("odradek", "floor", "apache39", "apache43", "tansu")
"""Targets that serve a consumer what was written."""
DURABLE = ("odradek", "apache39", "apache43")
"""Targets that find their data again after a restart."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One column of the table."""

    key: str
    label: str
    """With its unit."""
    digits: int = 0
    more_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Aim:
    """A bound that a metric of Odradek's must keep.

    `against` names the target to whose value the bound is a ratio; None: the bound is absolute.
    """

    metric: str
    bound: float
    against: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement, repeated in rounds over several targets."""

    key: str
    title: str
    measure: Callable[[Target, str, float], Values]
    """(target, topic, scale) to values.  `scale` shrinks data and time; 1 is the full size."""
    metrics: tuple[Metric, ...]
    aims: tuple[Aim, ...] = ()
    targets: tuple[str, ...] = EVERYONE
    is_steady: bool = True
    """True: the brokers run through all rounds, the first of which is dropped, and each round has
    a fresh topic.  False: the row starts, stops and wipes the broker itself."""
    partitions: int = 1
    fill: Callable[[Target, str, float], None] | None = None
    """Writes what is measured afterwards."""
    notes: tuple[str, ...] = field(default=())
