"""What was measured: samples, their medians and ratios, and the JSON file of a row."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.rows.row import Aim, Values


@dataclass(frozen=True, slots=True)
class Sample:
    """One target in one round."""

    round: int
    target: str
    values: Values
    foreign_share: float
    """Part of the machine (0 to 1) that neither broker nor client used meanwhile, but others."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What several rounds of one metric come to."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(numbers: list[float]) -> Spread:
        """Median, least and greatest of at least one number."""
        return Spread(statistics.median(numbers), min(numbers), max(numbers))


@dataclass(slots=True)
class RowResult:
    """All rounds of one row."""

    row: str
    date: str
    scale: float
    commit: str
    machine: dict[str, str]
    versions: dict[str, str]
    is_pinned: bool = False
    """Whether client and broker were kept on cores of their own."""
    samples: list[Sample] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    """Targets that could not be measured, and why."""

    def targets(self) -> list[str]:
        """In the order of the first round."""
        return list(dict.fromkeys(sample.target for sample in self.samples))

    def rounds(self, target: str) -> int:
        """How many rounds there are of a target."""
        return sum(sample.target == target for sample in self.samples)

    def numbers(self, target: str, metric: str) -> dict[int, float]:
        """Round to value."""
        return {
            sample.round: sample.values[metric]
            for sample in self.samples
            if sample.target == target and metric in sample.values
        }

    def spread(self, target: str, metric: str) -> Spread | None:
        """None when it was not measured."""
        numbers = list(self.numbers(target, metric).values())
        return Spread.of(numbers) if numbers else None

    def ratio(self, target: str, against: str, metric: str) -> Spread | None:
        """Spread of the ratios within each round: neighbours in time share the machine's mood."""
        mine, theirs = self.numbers(target, metric), self.numbers(against, metric)
        ratios = [mine[n] / theirs[n] for n in mine if theirs.get(n)]
        return Spread.of(ratios) if ratios else None

    def foreign_share(self, target: str) -> float:
        """The median share of the machine that others used."""
        shares = [sample.foreign_share for sample in self.samples if sample.target == target]
        return statistics.median(shares)

    def reached(self, aim: Aim, target: str = "odradek") -> Spread | None:
        """What an aim's metric or ratio came to."""
        if aim.against is None:
            return self.spread(target, aim.metric)
        return self.ratio(target, aim.against, aim.metric)

    def save(self, directory: Path) -> None:
        """Writes the row's JSON file."""
        directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(self), indent=1) + "\n"
        (directory / f"{self.row}.json").write_text(text)

    @staticmethod
    def load(file: Path) -> RowResult:
        """Reads what `save` wrote."""
        data = json.loads(file.read_text())
        data["samples"] = [Sample(**sample) for sample in data["samples"]]
        return RowResult(**data)
