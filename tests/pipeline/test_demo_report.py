"""The demo's page: it contains the numbers and valid plots, and fetches nothing."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from odradek.demo.pipeline.findings import DetectionQuality, Findings, Window
from odradek.demo.pipeline.payments import Truth
from odradek.demo.pipeline.report import read_progress, write_report

TRUTH = Truth(
    begin_ms=1_000_000,
    payments=12_345,
    duplicates=67,
    late=89,
    garbage=3,
    anomalies=["p-1", "p-2", "p-3", "p-4"],
    hot={1_005_000: "merchant-11", 1_010_000: "merchant-12"},
    windows={1_000_000: 4_000, 1_005_000: 8_000, 1_010_000: 345},
    end_ms=1_020_000,
)
FINDINGS = Findings(
    windows=[
        Window(1_000_000, "merchant-01", 4_000, 1.0),
        Window(1_005_000, "merchant-11", 8_000, 2.0),
        Window(1_010_000, "merchant-12", 345, 2.0),
    ],
    hottest={
        1_000_000: ("merchant-01", 0.1),
        1_005_000: ("merchant-11", 0.35),
        1_010_000: ("merchant-05", 0.2),
    },
    alerts=["p-1", "p-2", "p-3", "p-9", "p-1"],
    landed=12_345,
    landed_ids=12_344,
    rejected=3,
)
PROGRESS = [
    {
        "name": name,
        "at_ms": 5_000 + place,
        "rows_per_second": 10.5,
        "offsets_behind": 7,
        "rows": 7,
        "batch_ms": 3,
        "state": "idle" if place == 3 else "running",
    }
    for name in ("landed", "alarms")
    for place in range(4)
]


class Page(HTMLParser):
    """The parsed page: texts, rows of tables, images, and open tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.images: list[str] = []
        self.outside: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Start a row, a cell or an image."""
        source = dict(attrs).get("src") or dict(attrs).get("href")
        if tag == "img" and source is not None:
            self.images.append(source)
        if source is not None and not source.startswith("data:"):
            self.outside.append(source)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in ("img", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Each closes the one that was opened last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text of a cell."""
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data


def test_page_has_the_numbers_and_the_plots(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, TRUTH, FINDINGS, PROGRESS)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == ["html"] or page.open == []
    assert page.outside == []
    assert page.rows[1:] == [
        ["payments in Parquet", "12,345", "12,344", "differs"],
        ["rows in Parquet, one for each payment", "12,345", "12,345", "equal"],
        ["dead letters", "3", "3", "equal"],
        ["hot merchants", "2", "2", "precision 0.50, recall 0.50"],
        ["odd amounts", "4", "4", "precision 0.75, recall 0.75"],
    ]
    assert "Odd amounts that were missed: p-4." in text
    for number in ("12,345", "67", "89"):
        assert f"<b>{number}</b>" in text
    assert len(page.images) == len(re.findall("<h2>", text)) - 1 == 5
    for image in page.images:
        data = base64.b64decode(image.removeprefix("data:image/svg+xml;base64,"))
        drawn = "".join(ElementTree.fromstring(data).itertext())
        assert any(word in drawn for word in ("rows/s", "records", "milli", "payments", "share"))


def test_plots_of_windows_share_one_axis_and_show_planted_peaks(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, TRUTH, FINDINGS, PROGRESS)
    *_, counts, shares = (
        list(ElementTree.fromstring(base64.b64decode(image.partition(",")[2])).itertext())
        for image in Page(path.read_text(encoding="utf-8")).images
    )
    for merchant in TRUTH.hot.values():
        assert merchant in counts, "a planted peak is in the plot, however small the merchant"
    axis = "seconds of event time, at the middle of a window"
    assert axis in counts
    assert axis in shares


def test_incomplete_outputs_are_named() -> None:
    assert FINDINGS.lacks(TRUTH) == ["payments in Parquet: 12,344 of 12,345"]
    assert replace(FINDINGS, landed_ids=12_345).lacks(TRUTH) == []
    cut = replace(
        FINDINGS,
        windows=FINDINGS.windows[:2],
        hottest={1_000_000: ("merchant-01", 0.1)},
        landed_ids=12_345,
        rejected=2,
    )
    assert cut.lacks(TRUTH) == [
        "dead letters: 2 of 3",
        "windows of merchants: 2 of 3",
        "windows of hot merchants: 1 of 3",
    ]


def test_run_without_findings_has_a_page(tmp_path: Path) -> None:
    nothing = Findings([], {}, [], landed=0, landed_ids=0, rejected=0)
    write_report(tmp_path / "report.html", Truth(begin_ms=0), nothing, [])
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.rows[4] == ["hot merchants", "0", "0", "precision none, recall none"]


def test_precision_and_recall_are_computed_from_found_and_planted() -> None:
    assert FINDINGS.anomalies(TRUTH) == DetectionQuality(planted=4, detections=4, right=3)
    assert FINDINGS.hot(TRUTH) == DetectionQuality(planted=2, detections=2, right=1), (
        "0.1 of a window is none"
    )
    assert replace(TRUTH, end_ms=1_014_999).is_whole(1_005_000)
    assert not replace(TRUTH, end_ms=1_014_999).is_whole(1_010_000)
    assert str(DetectionQuality(1000, 1000, 999)) == "precision 0.99, recall 0.99", (
        "1.00 is all of it"
    )
    assert not DetectionQuality(1000, 1000, 999).is_complete
    assert DetectionQuality(10, 4, 2).precision == pytest.approx(0.5)


def test_incomplete_last_line_of_progress_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text("".join(json.dumps(progress) + "\n" for progress in PROGRESS) + '{"name": "la')
    assert read_progress(path) == PROGRESS
