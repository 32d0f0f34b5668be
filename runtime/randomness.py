"""Random numbers and ids, passed in.

Pure code never draws: what must be random is a field of the command that it is given.
"""

from __future__ import annotations

import os
import random
import uuid
from typing import Protocol


class Randomness(Protocol):
    """The only source of random values outside of pure code."""

    def below(self, bound: int) -> int:
        """A whole number in 0 <= n < `bound`; `bound` is at least 1."""

    def uuid(self) -> uuid.UUID:
        """A random (version 4) UUID that is not zero."""

    def bytes(self, count: int) -> bytes:
        """Random bytes that cannot be guessed, for salts and the like."""


class SystemRandomness:
    """The host's entropy."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def uuid(self) -> uuid.UUID:
        return uuid.uuid4()

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)
