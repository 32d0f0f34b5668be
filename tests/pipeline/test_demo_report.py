"""The demo's page: the numbers stand in it, the pictures can be read, nothing is fetched."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pipeline.demo.findings import Findings, Verdict, Window
from pipeline.demo.payments import Truth
from pipeline.demo.report import read_progress, write_report

TRUTH = Truth(
    begin_ms=1_000_000,
    payments=12_345,
    duplicates=67,
    late=89,
    garbage=3,
    anomalies=["p-1", "p-2", "p-3", "p-4"],
    hot={1_005_000: "merchant-11", 1_010_000: "merchant-12"},
)
FINDINGS = Findings(
    windows=[
        Window(1_000_000, "merchant-01", 4_000, 1.0),
        Window(1_005_000, "merchant-11", 8_345, 2.0),
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
        "batch_ms": 3,
    }
    for name in ("landed", "alarms")
    for place in range(3)
]


class Page(HTMLParser):
    """What a reader sees: texts, rows of tables, pictures, and what is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.pictures: list[str] = []
        self.outside: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a row, a cell, a picture."""
        source = dict(attrs).get("src") or dict(attrs).get("href")
        if tag == "img" and source is not None:
            self.pictures.append(source)
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


def test_the_page_has_the_numbers_and_the_pictures(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, TRUTH, FINDINGS, PROGRESS)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == ["html"] or page.open == []
    assert page.outside == []
    assert page.rows[1:] == [
        ["payments landed in Parquet", "12,345", "12,344", "differs"],
        ["rows landed", "12,345", "12,345", "equal"],
        ["dead letters", "3", "3", "equal"],
        ["hot merchants", "2", "2", "precision 0.50, recall 0.50"],
        ["odd amounts", "4", "4", "precision 0.75, recall 0.75"],
    ]
    assert "Odd amounts that were missed: p-4." in text
    for number in ("12,345", "67", "89"):
        assert f"<b>{number}</b>" in text
    assert len(page.pictures) == len(re.findall("<h2>", text)) - 1 == 5
    for picture in page.pictures:
        data = base64.b64decode(picture.removeprefix("data:image/svg+xml;base64,"))
        drawn = "".join(ElementTree.fromstring(data).itertext())
        assert any(word in drawn for word in ("rows/s", "records", "milli", "payments", "share"))


def test_a_run_without_findings_has_a_page_too(tmp_path: Path) -> None:
    nothing = Findings([], {}, [], landed=0, landed_ids=0, rejected=0)
    write_report(tmp_path / "report.html", Truth(begin_ms=0), nothing, [])
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.rows[4] == ["hot merchants", "0", "0", "precision 1.00, recall 1.00"]


def test_precision_and_recall() -> None:
    assert FINDINGS.anomalies(TRUTH) == Verdict(planted=4, found=4, right=3)
    assert FINDINGS.hot(TRUTH) == Verdict(planted=2, found=2, right=1)
    assert Verdict(10, 4, 2).precision == pytest.approx(0.5)
    assert Verdict(10, 4, 2).recall == pytest.approx(0.2)


def test_a_line_of_progress_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in PROGRESS) + '{"name": "la')
    assert read_progress(path) == PROGRESS
