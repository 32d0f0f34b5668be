"""Conversions of long requests, in steps between which the loop serves other connections."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final, TypeVar

PARTITIONS_PER_STEP: Final = 64

T = TypeVar("T")

Steps = Generator[None, None, T]
"""Yields between steps and returns the result."""


def collect(items: Iterable[T]) -> Steps[tuple[T, ...]]:
    """A tuple of the items, which are made one by one."""
    found: list[T] = []
    for one in items:
        found.append(one)
        if len(found) % PARTITIONS_PER_STEP == 0:
            yield
    return tuple(found)
