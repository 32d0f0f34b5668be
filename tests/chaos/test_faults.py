"""A fault that does nothing is a failure of its run: each of them, where nothing has an effect."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos import faults
from tests.chaos.faults import LANES, Fault
from tests.chaos.scene import BROKERS, Lane, Toothless

FAULTS = [fault for lane in LANES.values() for fault in lane]


class Ineffective:
    """A network, a disk, a cluster or a server: everything can be asked of it, and nothing happens.

    given  what its attributes are instead
    """

    def __init__(self, **given: Any) -> None:
        self.__dict__ |= given

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class HastyLane(Lane):
    """Faults do not last."""

    def hold(self, least_s: float, most_s: float) -> None:
        """Go on at once."""


@pytest.fixture
def process_id() -> Iterator[int]:
    """Of a process that runs."""
    process = subprocess.Popen(["sleep", "600"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def lane_of(process_id: int) -> HastyLane:
    """On a cluster to which nothing happens."""
    broker = SimpleNamespace(process=SimpleNamespace(pid=process_id))
    disk = Ineffective(path=Path("/data"), is_full=False)
    scene: Any = Ineffective(
        cluster=Ineffective(brokers=dict.fromkeys(BROKERS, broker)),
        network=Ineffective(dropped=lambda: 0, waited=lambda _: 0),
        servers=[Ineffective(pid=process_id) for _ in BROKERS],
        disks={number: [disk] for number in BROKERS},
        syncs={number: Ineffective(failed=lambda: 0) for number in BROKERS},
        is_damaged=lambda _: False,
    )
    return HastyLane(scene, Random(1))


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.__name__ for fault in FAULTS])
def test_fault_without_an_effect_is_toothless(
    fault: Fault, process_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "BITE_S", 0.01)
    with pytest.raises(Toothless):
        fault(lane_of(process_id))


@pytest.mark.parametrize("fault", [faults.kill, faults.stop, faults.kill_zookeeper])
def test_victim_that_had_ended_by_itself_is_no_victim(fault: Fault) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(Toothless, match="had ended by itself"):
        fault(lane_of(process.pid))


class OneSynced:
    """fsync errors of a broker that syncs one of its directories."""

    def __init__(self, synced: Path) -> None:
        self._synced = synced
        self.directories: list[Path] = []
        """Those in which fsync was to fail."""

    def begin(self, directory: Path) -> None:
        """As `FailingSyncs.begin`."""
        self.directories = [directory]

    def turn_to(self, directory: Path) -> None:
        """As `FailingSyncs.turn_to`."""
        self.directories.append(directory)

    def failed(self) -> int:
        """As `FailingSyncs.failed`."""
        return int(self.directories[-1] == self._synced)

    def repeated(self) -> list[str]:
        """As `FailingSyncs.repeated`."""
        return []

    def end(self) -> None:
        """As `FailingSyncs.end`."""


@pytest.mark.parametrize("synced", [Path("/data"), Path("/data-2")], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_fsync_errors_come_to_the_directory_that_is_synced(
    synced: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "TURN_S", 0.0)
    monkeypatch.setattr(faults, "BITE_S", 1.0)
    syncs = OneSynced(synced)
    scene: Any = Ineffective(
        cluster=Ineffective(),
        network=Ineffective(),
        controller=lambda: None,
        disks=dict.fromkeys(
            BROKERS, (Ineffective(path=Path("/data")), Ineffective(path=Path("/data-2")))
        ),
        syncs=dict.fromkeys(BROKERS, syncs),
        is_damaged=lambda _: True,
    )
    assert faults.fail_syncs(HastyLane(scene, Random(seed))).startswith(
        f"fail fsync in {synced.name} of "
    )
    assert syncs.directories[-1] == synced
