"""The findings of the demo pipeline, compared with the planted ones."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow.dataset
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from odradek.demo.pipeline.payments import HOT_SHARE_MIN, Truth

END_WAIT_S: Final = 5.0
END: Final = "end-"
"""Prefix of the ids of the payments that only advance the watermark."""


@dataclass(frozen=True, slots=True)
class DetectionQuality:
    """How many findings of one kind are right, and how many cases were planted."""

    planted: int
    detections: int
    right: int

    @property
    def precision(self) -> float | None:
        """The share of findings that were planted; None without findings."""
        return self.right / self.detections if self.detections else None

    @property
    def is_complete(self) -> bool:
        """Whether all planted cases were found."""
        return self.right == self.planted

    def __str__(self) -> str:
        precision, recall = (_share(self.right, count) for count in (self.detections, self.planted))
        return f"precision {precision}, recall {recall}"


def _share(part: int, whole: int) -> str:
    """Two decimals, rounded down: only the whole is 1.00."""
    return f"{100 * part // whole / 100:.2f}" if whole else "none"


@dataclass(frozen=True, slots=True)
class Window:
    """One row of the merchants' table."""

    start_ms: int
    merchant: str
    payments: int
    total: float


@dataclass(frozen=True, slots=True)
class Findings:
    """All findings of a run."""

    windows: list[Window]
    hottest: dict[int, tuple[str, float]]
    """Start of a window -> its most frequent merchant and that merchant's share."""
    alerts: list[str]
    """Ids of payments."""
    landed: int
    landed_ids: int
    rejected: int

    def hot(self, truth: Truth) -> DetectionQuality:
        """How well hot merchants were found: complete windows with a share >= HOT_SHARE_MIN."""
        merchants = {
            start: merchant
            for start, (merchant, share) in self.hottest.items()
            if share >= HOT_SHARE_MIN and truth.is_whole(start)
        }
        right = sum(merchants.get(start) == merchant for start, merchant in truth.hot.items())
        return DetectionQuality(len(truth.hot), len(merchants), right)

    def anomalies(self, truth: Truth) -> DetectionQuality:
        """How well planted payments were found as anomalies."""
        planted = dict.fromkeys(truth.anomalies)
        right = sum(alert in planted for alert in dict.fromkeys(self.alerts))
        return DetectionQuality(len(planted), len(dict.fromkeys(self.alerts)), right)

    def lacks(self, truth: Truth) -> list[str]:
        """The incomplete outputs, with their present and expected counts."""
        counted: dict[int, int] = {}
        for window in self.windows:
            counted[window.start_ms] = counted.get(window.start_ms, 0) + window.payments
        missing = {
            "payments in Parquet": (truth.payments, self.landed_ids),
            "dead letters": (truth.garbage, self.rejected),
            "windows of merchants": (
                len(truth.windows),
                sum(counted.get(start, 0) >= count for start, count in truth.windows.items()),
            ),
            "windows of hot merchants": (
                len(truth.windows),
                sum(start in self.hottest for start in truth.windows),
            ),
        }
        return [
            f"{name}: {actual:,} of {expected:,}"
            for name, (expected, actual) in missing.items()
            if actual < expected
        ]


def read_findings(folder: Path, address: str) -> Findings:
    """Read the files, databases and topics that the pipeline has written."""
    windows = [
        Window(_ms(start), merchant, payments, total)
        for start, merchant, payments, total in _rows(
            folder / "payments.db",
            "SELECT window_start, merchant, payments, total FROM per_merchant ORDER BY 1, 2",
        )
    ]
    hottest = {
        _ms(start): (merchant, share)
        for start, merchant, share in _rows(
            folder / "hot.db",
            "SELECT window_start, merchant, share FROM hot_merchants WHERE rank = 1",
        )
    }
    alerts = [json.loads(value)["id"] for value in _values(address, "payment-alerts")]
    ids = _landed(folder / "landed")
    return Findings(
        windows,
        hottest,
        alerts,
        landed=len(ids),
        landed_ids=len(dict.fromkeys(ids)),
        rejected=sum(1 for _ in _values(address, "payments-rejected")),
    )


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000)


def _rows(path: Path, query: str) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def _landed(folder: Path) -> list[str]:
    """Ids in the committed files; other files belong to interrupted batches."""
    log = folder / "_spark_metadata"
    names: list[str] = []
    # A file `N.compact` lists all files up to batch N, another one those of its batch.
    entries = sorted(log.glob("[0-9]*"), key=lambda path: int(path.stem))
    compacted = [path for path in entries if path.suffix == ".compact"]
    first = int(compacted[-1].stem) if compacted else -1
    for path in [*compacted[-1:], *(entry for entry in entries if int(entry.stem) > first)]:
        names += [json.loads(line)["path"] for line in path.read_text().splitlines()[1:]]
    files = [name.removeprefix("file://") for name in dict.fromkeys(names)]
    if not files:
        return []
    table = pyarrow.dataset.dataset(files, format="parquet").to_table(columns=["id"])
    ids: list[str] = table.column("id").to_pylist()
    return [payment_id for payment_id in ids if not payment_id.startswith(END)]


def _values(address: str, topic: str) -> Iterable[bytes]:
    """The values of all records of a topic; none for a missing topic."""
    settings = {"bootstrap.servers": address, "group.id": "demo", "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": False})
    try:
        topic_metadata = consumer.list_topics(topic, timeout=END_WAIT_S).topics[topic]
        for index in topic_metadata.partitions if topic_metadata.error is None else ():
            partition = TopicPartition(topic, index, OFFSET_BEGINNING)
            _, end = consumer.get_watermark_offsets(partition, timeout=END_WAIT_S)
            consumer.assign([partition])
            next_offset = 0
            while next_offset < end:
                message = consumer.poll(END_WAIT_S)
                if message is None:
                    break
                if message.error() is None:
                    next_offset = (message.offset() or 0) + 1
                    yield message.value() or b""
    finally:
        consumer.close()
