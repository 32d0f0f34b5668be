"""The switch of tests that overwrites lent memory as soon as its loan ends.

Frames are views of memory that belongs to the connection's next turn.  With the switch on, a view
that is used after its turn reads 0xDB in the first test that does so, and not, on a busy machine,
the bytes of another client.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from mmap import mmap
from typing import Final

VARIABLE: Final = "ODRADEK_POISON_LENT_MEMORY"
"""Environment variable: 1 for on."""

Poison = Callable[[memoryview | mmap, int], None]


def _poison(memory: memoryview | mmap, size: int) -> None:
    memory[:size] = b"\xdb" * size


POISON: Final[Poison | None] = _poison if os.environ.get(VARIABLE) == "1" else None
"""Overwrites the first bytes of a memory; None: the switch is off."""
