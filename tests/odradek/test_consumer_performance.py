"""`odradek consumer-perf-test`: intervals, times in Java's patterns."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from odradek.tools.console.errors import ConsoleError
from odradek.tools.consumer_performance.command import ConsumptionRow, detail_line, total_line
from odradek.tools.consumer_performance.date_format import DateFormat
from tests.odradek.console_tools import our_tool_here
from tests.support.broker_process import odradek_broker

pytestmark = pytest.mark.client

RECORDS = 20_000
TIME_MS = 1_700_000_003_007
"""2023-11-14 22:13:23.007 UTC."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of our broker, with RECORDS records of 100 bytes and a key of 3."""
    overrides = {"group.initial.rebalance.delay.ms": "0"}
    with odradek_broker(tmp_path_factory.mktemp("odradek"), overrides=overrides) as process:
        producer = Producer({"bootstrap.servers": process.address})
        for _ in range(RECORDS):
            producer.produce("read", b"x" * 100, b"key")
        assert producer.flush(60) == 0
        yield process.address


def test_intervals_add_up_to_all_records_and_their_bytes(broker: str) -> None:
    words = ["--bootstrap-server", broker, "--topic", "read", "--messages", str(RECORDS)]
    words += ["--show-detailed-stats", "--reporting-interval", "1", "--print-metrics"]
    result = our_tool_here("consumer-perf-test", words)
    assert result.exit_code == 0, result.errors
    rows = [line.split(", ") for line in result.output.partition("\n\n")[0].splitlines()[1:]]
    assert len(rows) > 1
    counts = [int(row[4]) for row in rows]
    assert counts == sorted(counts)
    assert counts[-1] <= RECORDS
    assert float(rows[-1][2]) == pytest.approx(counts[-1] * 103 / (1 << 20), abs=1e-4)
    assert "records-consumed-total" in result.output


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2023-11-14 22:13:23:007"),
        ("yy/M/d h 'o''clock' a", "23/11/14 10 o'clock PM"),
        ("EEE, MMM MMMM ''S Z", "Tue, Nov November '7 +0000"),
    ],
)
def test_pattern_prints_what_java_prints(
    pattern: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        assert DateFormat(pattern).text(TIME_MS) == text
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("pattern", ["x", "b", "'open"])
def test_pattern_with_a_letter_that_cannot_be_printed_is_refused(pattern: str) -> None:
    with pytest.raises(ConsoleError, match="IllegalArgumentException"):
        DateFormat(pattern)


def test_row_without_time_has_quotients_as_java_prints_them() -> None:
    form = DateFormat("'t'")
    row = ConsumptionRow(5, 5, 0, 3, 0, 0, 3)
    assert total_line(row, form) == "t, t, 0.0000, NaN, 3, Infinity, 0, 0, NaN, Infinity"
    joined = ConsumptionRow(0, 100, 1 << 20, 50, 100, 1 << 20, 50)
    assert detail_line(joined, form) == (
        "t, 0, 1.0000, 10.0000, 50, 500.0000, 100, 0, 0.0000, 0.0000"
    )
