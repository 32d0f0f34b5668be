"""The demo's page: rates, lag, windows, and findings compared with planted cases."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")  # The backend without a display.

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from odradek.demo.pipeline.findings import DetectionQuality, Findings
from odradek.demo.pipeline.payments import WINDOW_MS, Truth

SHOWN_MERCHANTS: Final = 6
SHOWN_OTHERS: Final = 2
"""The least number of merchants shown besides those with planted peaks."""
SHOWN_MISSES: Final = 20
COLORS: Final = (
    "#2f6db3",
    "#d1802b",
    "#3a8f5c",
    "#a8506b",
    "#6d5bab",
    "#7a7a7a",
    "#1f9aa8",
    "#b59a1f",
    "#5a4632",
    "#d65f9e",
)
FOUND: Final = "#3a8f5c"
MISSED: Final = "#c0392b"
UNPLANTED: Final = "#c9ced6"
PLOT_STYLE: Final[Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a94a3",
    "axes.labelcolor": "#4a5464",
    "xtick.color": "#4a5464",
    "ytick.color": "#4a5464",
    "grid.color": "#dfe3e9",
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "payments",
    "font.size": 10,
}
STYLE: Final = """
:root { color-scheme: light }
body { font: 16px/1.5 system-ui, sans-serif; color: #1f2733; background: #f5f6f8; margin: 0 }
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1rem 4rem }
h1 { font-size: 1.7rem; margin: 0 0 .5rem } h2 { font-size: 1.1rem; margin: 0 0 .3rem }
p { margin: .3rem 0 } .note { color: #5a6473; font-size: .92rem }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .8rem;
  margin: 1.4rem 0 }
.numbers div, section { background: #fff; border: 1px solid #e2e5ea; border-radius: 8px;
  padding: .9rem 1.1rem }
.numbers b { display: block; font-size: 1.6rem; font-variant-numeric: tabular-nums }
section { margin: 0 0 1rem; overflow-x: auto } img { width: 100%; min-width: 40rem; display: block }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
td, th { padding: .35rem .6rem; border-bottom: 1px solid #e8eaee; text-align: right }
td:first-child, th:first-child { text-align: left } tr:last-child td { border: 0 }
th { font-weight: 600; color: #5a6473; font-size: .9rem }
.good { color: #2b7a4b; font-weight: 600 } .bad { color: #c0392b; font-weight: 600 }
"""


def write_report(
    path: Path, truth: Truth, findings: Findings, progress: Sequence[dict[str, Any]]
) -> None:
    """Write one HTML file that contains all plots.

    progress  of `odradek pipeline run --progress-file`
    """
    seconds = "seconds since the first batch"
    plots = [
        (
            "Rows per second, by query",
            "Each query of the pipeline reads the topic by itself.",
            lambda axes: _lines(axes, progress, "rows_per_second", "rows/s", seconds),
        ),
        (
            "Records that wait to be read",
            "How many there were when each batch of a query began, and how many of them it left.",
            lambda axes: _waiting(axes, progress, seconds),
        ),
        (
            "Time of a batch",
            "From the reading of its offsets to the commit.",
            lambda axes: _lines(axes, progress, "batch_ms", "milliseconds", seconds),
        ),
        (
            "Payments per window of 5 s",
            "The merchants with planted peaks (thick lines), and the largest others.",
            lambda axes: _windows(axes, truth, findings),
        ),
        (
            "Share of the hottest merchant",
            "The number of the merchant with the largest share of each window. Green: planted and"
            " found; red: planted and missed; grey: nothing was planted.",
            lambda axes: _hot(axes, truth, findings),
        ),
    ]
    body = [
        "<h1>Card payments through a pipeline</h1>",
        "<p class=note>Made-up payments went into a topic; the pipeline cleaned them, counted them"
        " per merchant, looked for hot merchants and odd amounts, and landed them.</p>",
        _numbers(truth, findings),
        _section("Found against planted", "", _table(truth, findings) + _misses(truth, findings)),
    ]
    for title, note, fill in plots:
        image = f"<img alt='{html.escape(title)}' src='{_draw(fill)}'>"
        body.append(_section(title, note, image))
    path.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Card payments</title>"
        f"<style>{STYLE}</style><main>{''.join(body)}</main></html>\n",
        encoding="utf-8",
    )


def _section(title: str, note: str, content: str) -> str:
    paragraph = f"<p class=note>{html.escape(note)}</p>" if note else ""
    return f"<section><h2>{html.escape(title)}</h2>{paragraph}{content}</section>"


def _numbers(truth: Truth, findings: Findings) -> str:
    numbers = [
        (f"{truth.payments:,}", "payments were sent"),
        (f"{truth.duplicates:,}", "were sent twice"),
        (f"{truth.late:,}", "were sent late"),
        (f"{truth.garbage:,}", "records were cut off"),
        (
            f"{sum(window.payments for window in findings.windows):,}",
            "payments were counted in windows",
        ),
    ]
    cells = "".join(f"<div><b>{number}</b>{text}</div>" for number, text in numbers)
    return f"<div class=numbers>{cells}</div>"


def _table(truth: Truth, findings: Findings) -> str:
    rows = [
        _count("payments in Parquet", truth.payments, findings.landed_ids),
        _count("rows in Parquet, one for each payment", truth.payments, findings.landed),
        _count("dead letters", truth.garbage, findings.rejected),
        _quality("hot merchants", findings.hot(truth)),
        _quality("odd amounts", findings.anomalies(truth)),
    ]
    head = "<tr><th></th><th>planted or sent</th><th>found</th><th></th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _count(name: str, expected: int, actual: int) -> str:
    verdict = (
        "<span class=good>equal</span>" if expected == actual else "<span class=bad>differs</span>"
    )
    return f"<tr><td>{name}</td><td>{expected:,}</td><td>{actual:,}</td><td>{verdict}</td></tr>"


def _quality(name: str, quality: DetectionQuality) -> str:
    is_good = quality.is_complete and (quality.precision is None or quality.precision >= 0.9)
    kind = "good" if is_good else "bad"
    return (
        f"<tr><td>{name}</td><td>{quality.planted:,}</td><td>{quality.detections:,}</td>"
        f"<td><span class={kind}>{quality}</span></td></tr>"
    )


def _misses(truth: Truth, findings: Findings) -> str:
    """A note on the planted anomalies that were not found."""
    alerts = dict.fromkeys(findings.alerts)
    missed = [anomaly for anomaly in truth.anomalies if anomaly not in alerts]
    if not missed:
        return ""
    shown = ", ".join(html.escape(anomaly) for anomaly in missed[:SHOWN_MISSES])
    more = f" and {len(missed) - SHOWN_MISSES} more" if len(missed) > SHOWN_MISSES else ""
    return f"<p class=note>Odd amounts that were missed: {shown}{more}.</p>"


def _draw(fill: Callable[[Axes], None]) -> str:
    """Draw a plot; returns it as a data URL."""
    with plt.rc_context(PLOT_STYLE):
        figure, axes = plt.subplots(figsize=(10, 3.0), layout="constrained")
        axes.set_prop_cycle(color=COLORS)
        fill(axes)
        axes.grid(axis="y")
        axes.margins(y=0.12)
        axes.set_axisbelow(True)
        axes.set_ylim(bottom=0)
        data = io.BytesIO()
        figure.savefig(data, format="svg", transparent=True)
        plt.close(figure)
    return "data:image/svg+xml;base64," + base64.b64encode(data.getvalue()).decode()


def _by_query(progress: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    queries: dict[str, list[dict[str, Any]]] = {}
    for batch in progress:
        queries.setdefault(batch["name"], []).append(batch)
    return queries


def _lines(
    axes: Axes, progress: Sequence[dict[str, Any]], key: str, label: str, below: str
) -> None:
    begin_ms = _first_ms(progress)
    for name, batches in _by_query(progress).items():
        mine = [batch for batch in batches if batch["state"] == "running"]
        seconds = [(batch["at_ms"] - begin_ms) / 1_000 for batch in mine]
        axes.plot(seconds, [batch[key] for batch in mine], marker=".", linewidth=1.4, label=name)
    _label(axes, below, label)


def _waiting(axes: Axes, progress: Sequence[dict[str, Any]], below: str) -> None:
    """Plot two points per batch: unread records at its start, and how many of them it left."""
    begin_ms = _first_ms(progress)
    for name, batches in _by_query(progress).items():
        points: list[tuple[float, int]] = []
        for batch in batches:
            if batch["state"] == "running":
                end_s, waited = (batch["at_ms"] - begin_ms) / 1_000, batch["offsets_behind"]
                points.append((end_s - batch["batch_ms"] / 1_000, waited))
                points.append((end_s, max(waited - batch["rows"], 0)))
        seconds, records = [point[0] for point in points], [point[1] for point in points]
        axes.plot(seconds, records, marker=".", linewidth=1.4, label=name)
    _label(axes, below, "records")


def _first_ms(progress: Sequence[dict[str, Any]]) -> int:
    """The start of the first batch."""
    return min((batch["at_ms"] - batch["batch_ms"] for batch in progress), default=0)


def _label(axes: Axes, below: str, left: str) -> None:
    axes.set_xlabel(below)
    axes.set_ylabel(left)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _windows(axes: Axes, truth: Truth, findings: Findings) -> None:
    totals: dict[str, int] = {}
    for window in findings.windows:
        totals[window.merchant] = totals.get(window.merchant, 0) + window.payments
    planted = [name for name in dict.fromkeys(truth.hot.values()) if name in totals]
    others = [
        name for name in sorted(totals, key=lambda name: -totals[name]) if name not in planted
    ]
    for merchant in [*planted, *others[: max(SHOWN_MERCHANTS - len(planted), SHOWN_OTHERS)]]:
        mine = [window for window in findings.windows if window.merchant == merchant]
        seconds = [_middle_s(truth, window.start_ms) for window in mine]
        payments = [window.payments for window in mine]
        width = 2.4 if merchant in planted else 1.0
        axes.plot(seconds, payments, marker=".", linewidth=width, label=merchant)
    _event_time(axes, truth, "payments")


def _middle_s(truth: Truth, start_ms: int) -> float:
    """The position of a window in a plot: its middle, in seconds of the run."""
    return (start_ms + WINDOW_MS / 2 - truth.begin_ms) / 1_000


def _event_time(axes: Axes, truth: Truth, left: str) -> None:
    """Set the time axis of a plot of windows."""
    if truth.windows:
        half_s = WINDOW_MS / 2_000
        axes.set_xlim(
            _middle_s(truth, min(truth.windows)) - half_s,
            _middle_s(truth, max(truth.windows)) + half_s,
        )
    _label(axes, "seconds of event time, at the middle of a window", left)


def _hot(axes: Axes, truth: Truth, findings: Findings) -> None:
    starts = sorted(findings.hottest)
    seconds = [_middle_s(truth, start) for start in starts]
    shares = [findings.hottest[start][1] for start in starts]
    colors = [_color(truth.hot.get(start), findings.hottest[start][0]) for start in starts]
    axes.bar(seconds, shares, width=0.84 * WINDOW_MS / 1_000, color=colors)
    for second, share, start in zip(seconds, shares, starts, strict=True):
        name = findings.hottest[start][0].removeprefix("merchant-")
        axes.annotate(name, (second, share), ha="center", va="bottom", fontsize=8)
    _event_time(axes, truth, "share")


def _color(planted: str | None, hottest: str) -> str:
    if planted is None:
        return UNPLANTED
    return FOUND if planted == hottest else MISSED


def read_progress(path: Path) -> list[dict[str, Any]]:
    """The lines of a progress file; an incomplete last line is left out."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]
