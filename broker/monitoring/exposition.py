"""Metrics as text: Prometheus's format 0.0.4, and OpenMetrics 1.0.

The text is written here: prometheus-client takes 7 us a sample, and a broker with 5,000 partitions
has 50,000.  Here the labels of a row are made once, and each of its samples takes 0.3 us.
Source: Prometheus, "Exposition formats"; the specification of OpenMetrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from odradek.runtime.work import pause

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
TOTAL: Final = "_total"
ROWS_PER_STEP: Final = 1_000
"""They take 0.3 to 1 ms."""
PART_CHARACTERS: Final = 1 << 16
"""To encode so many takes 20 us."""


class Kind(Enum):
    """The type of a metric."""

    COUNTER = "counter"
    """It only rises; its name ends with `_total`."""
    GAUGE = "gauge"
    SUMMARY = "summary"
    """Quantiles, and how many values there were (`_count`)."""


class Family(NamedTuple):
    """What is known of a metric before it has samples."""

    name: str
    kind: Kind
    text: str
    """One sentence."""


def gauge(name: str, text: str) -> Family:
    return Family(name, Kind.GAUGE, text)


def summary(name: str, text: str) -> Family:
    return Family(name, Kind.SUMMARY, text)


def counter(name: str, text: str) -> Family:
    """The name without its `_total`."""
    return Family(f"{name}{TOTAL}", Kind.COUNTER, text)


def per_second(family: Family) -> Family:
    """The counter under the name that other rules give it: as Kafka's own, `...PerSec`."""
    return gauge(f"{family.name.removesuffix(TOTAL)}persec", family.text)


def label_text(labels: Mapping[str, str]) -> str:
    """`{name="value",...}`; empty without labels."""
    if not labels:
        return ""
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}"


class Exposition:
    """Collects the text of one scrape."""

    def __init__(self, *, is_open_metrics: bool) -> None:
        self._is_open_metrics = is_open_metrics
        self._parts: list[bytes] = []
        self._lines: list[str] = []
        """What is not in a part yet."""
        self._size = 0

    def _append(self, text: str) -> None:
        self._lines.append(text)
        self._size += len(text)
        if self._size >= PART_CHARACTERS:
            self._end_part()

    def _end_part(self) -> None:
        self._parts.append("".join(self._lines).encode())
        self._lines.clear()
        self._size = 0

    def begin(self, family: Family) -> None:
        """The samples that follow are of this family; each family begins once."""
        name, kind, text = family
        if self._is_open_metrics and kind is Kind.COUNTER:
            name = name.removesuffix(TOTAL)
        self._append(f"# HELP {name} {text}\n# TYPE {name} {kind.value}\n")

    def sample(self, family: Family, value: float, labels: Mapping[str, str] | None = None) -> None:
        """One sample."""
        self._append(f"{family.name}{label_text(labels or {})} {value}\n")

    def table(self, family: Family, rows: Iterable[tuple[str, float]]) -> None:
        """A whole family: a sample for each (text of labels, value)."""
        self.begin(family)
        self.rows(family, rows)

    def rows(self, family: Family, rows: Iterable[tuple[str, float]]) -> None:
        """A sample for each (text of labels, value)."""
        name = family.name
        self._append("".join([f"{name}{labels} {value}\n" for labels, value in rows]))

    async def family(self, family: Family, rows: Sequence[tuple[str, float]]) -> None:
        """Begin a family, and write its samples in slices."""
        self.begin(family)
        for start in range(0, len(rows), ROWS_PER_STEP):
            self.rows(family, rows[start : start + ROWS_PER_STEP])
            await pause()

    def quantiles(
        self, family: Family, labels: str, values: Iterable[tuple[float, float]], count: int
    ) -> None:
        """The samples of a summary.

        labels  their text without its last brace
        values  (share, quantile)
        """
        name = family.name
        lines = [f'{name}{labels},quantile="{share}"}} {value:.6g}\n' for share, value in values]
        self._append("".join(lines) + f"{name}_count{labels}}} {count}\n")

    def total(self, family: Family, labels: str, count: int, total: float) -> None:
        """A summary without quantiles."""
        name = family.name
        self._append(f"{name}_count{labels} {count}\n{name}_sum{labels} {total}\n")

    def lone_count(self, family: Family, count: int, labels: str = "") -> None:
        """A summary of which nothing but the count is known."""
        self._append(f"{family.name}_count{labels} {count}\n")

    def counters(self, family: Family, rows: Sequence[tuple[str, float]]) -> None:
        """A family of counters under both of its names."""
        for each in (family, per_second(family)):
            self.table(each, rows)

    def metric(self, family: Family, value: float) -> None:
        """A family with one sample, which has no labels."""
        self.begin(family)
        self.sample(family, value)

    def encode(self) -> list[bytes]:
        """The text in parts: it is megabytes with thousands of partitions."""
        if self._is_open_metrics:
            self._append("# EOF\n")
        self._end_part()
        return self._parts
