"""Turns results into tables: what was aimed at, ratios, and the numbers themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.results import RowResult, Spread
from bench.rows import catalog as rows
from bench.rows.row import Aim, Metric, Row
from bench.targets import catalog as targets

HEAD = """\
# Figures

Made by `make bench`, or a row at a time by `python -m bench --row ROW`. Each cell is the median
of the rounds with the smallest and the largest in brackets. Rounds are interleaved (every broker
once, then every broker again), each on a fresh topic; a round before them (three for a JVM, which
compiles for long) is dropped; right before each part of a measurement a scratch file as large as
its data is written and unlinked until that gets no cheaper, so that no broker pays for memory
that the hypervisor has yet to give. Client and broker share the machine's cores. Broker CPU is
the process's CPU clock (all threads, ended ones included). MB = 1e6 bytes, GB = 1e9 bytes of
record values. Ratios are medians of the ratios within a round. "others" is the share of the
machine that neither broker nor client used, but something else did: above some 10 % the MB/s of
that line say little, while CPU per GB still does. The raw rounds lie in `bench/results/`.
"""


def _number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def _cell(spread: Spread | None, digits: int) -> str:
    if spread is None:
        return "-"
    low, high = _number(spread.low, digits), _number(spread.high, digits)
    return f"{_number(spread.median, digits)} ({low} - {high})"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _label(key: str) -> str:
    return targets.BY_KEY[key].label


def _ratio_digits(spread: Spread) -> int:
    return 1 if spread.median >= 10 else 2 if spread.median >= 0.1 else 3


def _ratio_lines(row: Row, result: RowResult, base: str) -> list[str]:
    lines = []
    for other in result.targets():
        if other == base:
            continue
        cells = [f"{_label(base)} / {_label(other)}"]
        for metric in row.metrics:
            ratio = result.ratio(base, other, metric.key)
            cells.append("-" if ratio is None else "x " + _cell(ratio, _ratio_digits(ratio)))
        lines.append(_line([*cells, ""]))
    return lines


def table(row: Row, result: RowResult) -> str:
    """One row's ratios and numbers."""
    measured = result.targets()
    if not measured:
        return f"### {row.key}: nothing was measured: {result.failures}\n"
    base = "odradek" if "odradek" in measured else "mock" if "mock" in measured else measured[0]
    head = ["", *(metric.label for metric in row.metrics), "others"]
    lines = [f"### {row.title}", "", f"`{row.key}`, {result.date}, commit {result.commit}, "]
    counts = sorted({result.rounds(target) for target in measured})
    lines[-1] += f"rounds: {', '.join(map(str, counts))}"
    lines[-1] += "." if result.scale == 1 else f"; shrunk to {result.scale:g} of its size."
    if result.is_pinned:
        lines[-1] += " Client and broker on cores of their own."
    lines += [*row.notes, "", _line(head), _line(["---"] * len(head))]
    lines += _ratio_lines(row, result, base)
    for target in measured:
        cells = [_cell(result.spread(target, m.key), m.digits) for m in row.metrics]
        lines.append(_line([_label(target), *cells, f"{result.foreign_share(target):.0%}"]))
    for target, why in result.failures.items():
        lines += ["", f"{_label(target)} was not measured to the end: {why[:200]}"]
    return "\n".join(lines) + "\n"


def _metric(row: Row, key: str) -> Metric:
    return next(metric for metric in row.metrics if metric.key == key)


def is_met(row: Row, aim: Aim, reached: Spread) -> bool:
    """Whether the median keeps the bound."""
    if _metric(row, aim.metric).more_is_better:
        return reached.median >= aim.bound
    return reached.median <= aim.bound


def aims(results: dict[str, RowResult]) -> str:
    """Every aim beside what was reached; empty as long as Odradek was not measured."""
    lines = [_line(["figure", "aim", "reached", ""]), _line(["---"] * 4)]
    for key, result in results.items():
        row = rows.BY_KEY[key]
        for aim in row.aims:
            reached = result.reached(aim)
            if reached is None:
                continue
            metric = _metric(row, aim.metric)
            sign = ">=" if metric.more_is_better else "<="
            name = f"{row.key}: {metric.label}"
            name += f" / {_label(aim.against)}" if aim.against else ""
            digits = _ratio_digits(reached) if aim.against else max(metric.digits, 0)
            unit = "x " if aim.against else ""
            verdict = "met" if is_met(row, aim, reached) else "**missed**"
            bound = f"{sign} {unit}{aim.bound:g}"
            lines.append(_line([name, bound, unit + _cell(reached, digits), verdict]))
    return "\n".join(lines) + "\n" if len(lines) > 2 else ""


def load_all(directory: Path) -> dict[str, RowResult]:
    """The stored results, in the order of the catalogue."""
    files = {key: directory / f"{key}.json" for key in rows.BY_KEY}
    return {key: RowResult.load(file) for key, file in files.items() if file.exists()}


def document(results: dict[str, RowResult]) -> str:
    """The whole of RESULTS.md."""
    machines: dict[str, str] = {}
    versions: dict[str, str] = {}
    for result in results.values():
        machines.update(result.machine)
        versions.update(result.versions)
    parts = [HEAD]
    parts.append("- Machine: " + "; ".join(f"{name}: {value}" for name, value in machines.items()))
    parts += [f"- {_label(key)}: {version}" for key, version in versions.items()]
    verdicts = aims(results)
    if verdicts:
        parts += ["", "## Aims", "", verdicts]
    parts += ["", "## Rows", ""]
    parts += [table(rows.BY_KEY[key], result) for key, result in results.items()]
    return "\n".join(parts)
