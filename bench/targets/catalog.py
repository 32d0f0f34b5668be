"""Every broker that can be measured, in the order in which a round visits them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.targets.apache import ApacheWithKRaft, ApacheWithZooKeeper
from bench.targets.floor import Floor
from bench.targets.mock import Mock
from bench.targets.odradek import Odradek
from bench.targets.tansu import Tansu
from bench.targets.target import Target

TARGETS: Final[tuple[type[Target], ...]] = (
    Odradek,
    Floor,
    ApacheWithZooKeeper,
    ApacheWithKRaft,
    Mock,
    Tansu,
)
BY_KEY: Final = {target.key: target for target in TARGETS}


def available() -> tuple[str, ...]:
    """The keys of the targets that can be started here."""
    return tuple(key for key in BY_KEY if key != Odradek.key or Odradek.exists())


def make(key: str, directory: Path) -> Target:
    """A target in a directory of its own below `directory`, emptied."""
    target = BY_KEY[key](directory / key)
    target.wipe()
    return target


class Pool:
    """Brokers that run from one row to the next: a JVM gets no warmer by another start."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._targets: dict[str, Target] = {}

    def get(self, key: str) -> Target:
        """The broker of that key, running or not."""
        if key not in self._targets:
            self._targets[key] = make(key, self._directory)
        return self._targets[key]

    def close(self) -> None:
        """Stops and wipes all; those that are asked for later start from nothing."""
        for target in self._targets.values():
            target.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
