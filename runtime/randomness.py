"""Chance as it comes in from the outside.

Cores never draw: what must be random arrives as a field of the command.
"""

from __future__ import annotations

import random
import uuid
from typing import Protocol


class Rng(Protocol):
    """The only source of randomness of an edge."""

    def below(self, bound: int) -> int:
        """A whole number in 0 <= n < `bound`; `bound` is at least 1."""

    def uuid(self) -> uuid.UUID:
        """A random (version 4) UUID that is not zero."""


class SystemRng:
    """Randomness of the host."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def below(self, bound: int) -> int:
        """A whole number in 0 <= n < `bound`."""
        return self._random.randrange(bound)

    def uuid(self) -> uuid.UUID:
        """A random UUID from the host's entropy."""
        return uuid.uuid4()


class SeededRng:
    """Repeatable randomness for tests and simulation."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, bound: int) -> int:
        """A whole number in 0 <= n < `bound`, the same for the same seed."""
        return self._random.randrange(bound)

    def uuid(self) -> uuid.UUID:
        """A UUID, the same for the same seed."""
        return uuid.UUID(int=self._random.getrandbits(128), version=4)
