"""Where a process of a test runs: on this machine, or in a network namespace of its own."""

from __future__ import annotations

from typing import Final, NamedTuple


class Machine(NamedTuple):
    """An address, and the words before each command that runs there."""

    host: str
    prefix: tuple[str, ...]


HERE: Final = Machine("127.0.0.1", ())
