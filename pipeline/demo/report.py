"""The demo's page: rates, lag, windows, and what was found against what was planted."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")  # No screen is needed.

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from pipeline.demo.findings import Findings, Verdict
from pipeline.demo.payments import Truth

SHOWN_MERCHANTS: Final = 6
STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse } td, th { padding: .3rem .8rem; border-bottom: 1px solid #ccc }
td:not(:first-child) { text-align: right } img { width: 100% } h1 { font-size: 1.6rem }
"""


def write_report(
    path: Path, truth: Truth, findings: Findings, progress: Sequence[dict[str, Any]]
) -> None:
    """One HTML file with everything in it.

    progress  of `odradek pipeline run --progress-file`
    """
    pictures = [
        ("Rows per second, by query", _draw(lambda axes: _rates(axes, progress))),
        ("Records that wait to be read", _draw(lambda axes: _lag(axes, progress))),
        ("Payments per window of 5 s", _draw(lambda axes: _windows(axes, truth, findings))),
        ("Share of the hottest merchant", _draw(lambda axes: _hot(axes, truth, findings))),
    ]
    body = [
        "<h1>Card payments through a pipeline</h1>",
        f"<p>{truth.payments:,} payments were sent, {truth.duplicates:,} of them twice,"
        f" {truth.late:,} late, and {truth.garbage:,} records that are none.</p>",
        _table(truth, findings),
    ]
    for title, picture in pictures:
        body.append(
            f"<h2>{html.escape(title)}</h2><img alt='{html.escape(title)}' src='{picture}'>"
        )
    path.write_text(
        "<!doctype html><meta charset=utf-8><title>Card payments</title>"
        f"<style>{STYLE}</style>{''.join(body)}\n",
        encoding="utf-8",
    )


def _table(truth: Truth, findings: Findings) -> str:
    rows = [
        ("payments landed in Parquet, each once", truth.payments, findings.landed_ids, ""),
        ("rows landed", truth.payments, findings.landed, ""),
        ("dead letters", truth.garbage, findings.rejected, ""),
        _verdict("hot merchants", findings.hot(truth)),
        _verdict("odd amounts", findings.anomalies(truth)),
    ]
    lines = [
        f"<tr><td>{name}</td><td>{planted:,}</td><td>{found:,}</td><td>{said}</td></tr>"
        for name, planted, found, said in rows
    ]
    head = "<tr><th></th><th>planted</th><th>found</th><th></th></tr>"
    return f"<table>{head}{''.join(lines)}</table>"


def _verdict(name: str, verdict: Verdict) -> tuple[str, int, int, str]:
    said = f"precision {verdict.precision:.2f}, recall {verdict.recall:.2f}"
    return name, verdict.planted, verdict.found, said


def _draw(fill: Callable[[Axes], None]) -> str:
    figure, axes = plt.subplots(figsize=(10, 3.2), layout="constrained")
    fill(axes)
    axes.grid(alpha=0.3)
    data = io.BytesIO()
    figure.savefig(data, format="svg")
    plt.close(figure)
    return "data:image/svg+xml;base64," + base64.b64encode(data.getvalue()).decode()


def _by_query(progress: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    queries: dict[str, list[dict[str, Any]]] = {}
    for one in progress:
        queries.setdefault(one["name"], []).append(one)
    return queries


def _rates(axes: Axes, progress: Sequence[dict[str, Any]]) -> None:
    _lines(axes, progress, "rows_per_second", "rows/s")


def _lag(axes: Axes, progress: Sequence[dict[str, Any]]) -> None:
    _lines(axes, progress, "offsets_behind", "records")


def _lines(axes: Axes, progress: Sequence[dict[str, Any]], key: str, label: str) -> None:
    begin_ms = min((one["at_ms"] for one in progress), default=0)
    for name, batches in _by_query(progress).items():
        seconds = [(one["at_ms"] - begin_ms) / 1_000 for one in batches]
        axes.plot(seconds, [one[key] for one in batches], marker=".", label=name)
    axes.set_xlabel("seconds")
    axes.set_ylabel(label)
    axes.legend(fontsize="small")


def _windows(axes: Axes, truth: Truth, findings: Findings) -> None:
    totals: dict[str, int] = {}
    for one in findings.windows:
        totals[one.merchant] = totals.get(one.merchant, 0) + one.payments
    largest = sorted(totals, key=lambda name: -totals[name])[:SHOWN_MERCHANTS]
    for merchant in largest:
        mine = [one for one in findings.windows if one.merchant == merchant]
        seconds = [(one.start_ms - truth.begin_ms) / 1_000 for one in mine]
        axes.plot(seconds, [one.payments for one in mine], marker=".", label=merchant)
    axes.set_xlabel("seconds of event time")
    axes.set_ylabel("payments")
    axes.legend(fontsize="small")


def _hot(axes: Axes, truth: Truth, findings: Findings) -> None:
    starts = sorted(findings.hottest)
    seconds = [(start - truth.begin_ms) / 1_000 for start in starts]
    shares = [findings.hottest[start][1] for start in starts]
    colors = [_color(truth.hot.get(start), findings.hottest[start][0]) for start in starts]
    axes.bar(seconds, shares, width=4.0, color=colors)
    axes.set_xlabel("seconds of event time; green: planted and found, red: planted and missed")
    axes.set_ylabel("share")


def _color(planted: str | None, found: str) -> str:
    if planted is None:
        return "silver"
    return "seagreen" if planted == found else "firebrick"


def read_progress(path: Path) -> list[dict[str, Any]]:
    """The lines of a progress file."""
    return [json.loads(line) for line in path.read_text().splitlines()]
