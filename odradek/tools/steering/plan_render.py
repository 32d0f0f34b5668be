"""The lines that show a proposal.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.tools.cluster_status.render import size_text
from odradek.tools.errors import partition_text
from odradek.tools.steering.cluster_model import ClusterModel, Load, loads_of, spread
from odradek.tools.steering.proposal import RebalanceProposal, copies
from odradek.tools.tables import aligned

SPREADS: Final = {
    Load.REPLICAS: "replicas",
    Load.LEADERS: "leaders",
    Load.DISK: "disk",
    Load.BYTES_IN: "bytes in",
    Load.LEADER_BYTES_IN: "leader bytes in",
}


def plan_lines(model: ClusterModel, proposal: RebalanceProposal) -> Iterator[str]:
    """What moves, and each broker and the spread before and after."""
    before = {row.partition: row for row in model.partitions}
    added = copies(model, proposal)
    copied = sum(before[partition].size_bytes * len(added[partition]) for partition in added)
    replicas = sum(map(len, added.values()))
    after = model.with_targets(proposal.targets)
    led = sum(
        row.leader != was.leader
        for row, was in zip(after.partitions, model.partitions, strict=True)
    )
    yield (
        f"Plan: {len(proposal.targets)} of {len(model.partitions)} partitions change, "
        f"{replicas} replicas ({size_text(copied)}) are copied, "
        f"{led} leaders change"
    )
    for partition, target in proposal.targets.items():
        row = before[partition]
        size = f"  {size_text(row.size_bytes)}" if partition in added else ""
        yield f"  {partition_text(partition)}: {_ids(row.replicas)} -> {_ids(target)}{size}"
    yield from broker_lines(model, after)


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


def broker_lines(before: ClusterModel, after: ClusterModel) -> Iterator[str]:
    """A table: the loads of each broker, and their spread."""
    loads = loads_of(before), loads_of(after)
    table = [["BROKER", "RACK", *(name.upper() for name in SPREADS.values())]]
    table += [
        [str(broker.node_id), broker.rack or "-"]
        + [
            _change(load, loads[0][broker.node_id][load], loads[1][broker.node_id][load])
            for load in SPREADS
        ]
        for broker in before.brokers
    ]
    spreads = [(spread(loads[0], load), spread(loads[1], load)) for load in SPREADS]
    table.append(["spread", ""] + [f"{first:.0%} -> {last:.0%}" for first, last in spreads])
    yield from aligned(table)


def _change(load: Load, before: float, after: float) -> str:
    return f"{_amount(load, before)} -> {_amount(load, after)}"


def _amount(load: Load, amount: float) -> str:
    if load is Load.DISK:
        return size_text(round(amount))
    if load in (Load.BYTES_IN, Load.LEADER_BYTES_IN):
        return f"{size_text(round(amount))}/s"
    return f"{amount:.0f}"


class MoveProgress(NamedTuple):
    """A plan at one moment."""

    finished: int
    partitions: int
    copied_bytes: int
    all_bytes: int
    elapsed_s: float
    """Since it was started, or started again."""

    @property
    def bytes_per_s(self) -> float:
        return self.copied_bytes / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """The time until all is copied at the rate so far; None: nothing is copied yet."""
        left = max(0, self.all_bytes - self.copied_bytes)
        if left and not self.bytes_per_s:
            return None
        return left / self.bytes_per_s if left else 0.0

    def line(self) -> str:
        """One line for the terminal."""
        copied = f"{size_text(self.copied_bytes)} of {size_text(self.all_bytes)}"
        text = f"{self.finished} of {self.partitions} partitions done, {copied} copied"
        if self.finished == self.partitions:
            return text
        left = "unknown time" if self.left_s is None else duration_text(self.left_s)
        return f"{text}, {size_text(round(self.bytes_per_s))}/s, {left} left"


def duration_text(seconds: float) -> str:
    """`2 h 5 min`, `5 min 3 s` or `3 s`, rounded up."""
    whole = -int(-seconds // 1)
    minutes, rest = divmod(whole, 60)
    hours, part = divmod(minutes, 60)
    if hours:
        return f"{hours} h {part} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
