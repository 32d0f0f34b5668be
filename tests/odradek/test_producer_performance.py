"""`odradek producer-perf-test`: what arrives, at which pace, and what the lines report."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from odradek.tools.producer_performance.command import RECORDS_AT_ONCE, Pace
from odradek.tools.producer_performance.statistics import QUANTILES, Statistics
from tests.odradek.console_tools import our_command, our_tool_here
from tests.support.broker_process import odradek_broker

pytestmark = pytest.mark.client

PASTED = (
    "--topic test001 --num-records {} --record-size 1024 --throughput -1 "
    "--producer.config config/producer.properties"
)
REPORT = re.compile(r"(\d+) records sent, ([\d.]+) records/sec")
WAIT_S = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of our broker."""
    with odradek_broker(tmp_path_factory.mktemp("odradek")) as process:
        yield process.address


def values_of(address: str, topic: str, count: int) -> list[bytes]:
    """The first committed values of partition 0."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        while len(values) < count:
            messages = consumer.consume(count - len(values), WAIT_S)
            assert messages, f"{len(values)} of {count} records"
            values += [message.value() or b"" for message in messages]
        return values
    finally:
        consumer.close()


def test_pasted_command_with_the_file_of_the_repository_sends_all_records(
    broker: str, tmp_path: Path
) -> None:
    settings = Path("config/producer.properties").read_text("utf-8")
    (tmp_path / "config").mkdir()
    java_only = "interceptor.classes=org.example.Interceptor\n"
    (tmp_path / "config" / "producer.properties").write_text(
        settings.replace("127.0.0.1:9092", broker) + java_only
    )
    done = subprocess.run(
        our_command("producer-perf-test", shlex.split(PASTED.format(20_000))),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    report = REPORT.match(done.stdout)
    assert report is not None
    assert report[1] == "20000"
    warnings = [line for line in done.stderr.splitlines() if "interceptor.classes" in line]
    assert len(warnings) == len(done.stderr.splitlines()) == 1
    values = values_of(broker, "test001", 20_000)
    assert {len(value) for value in values} == {1024}
    assert len(set(values)) > 19_900
    assert set(b"".join(values)) == set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def test_payload_file_is_split_as_javas_text_and_sent_in_transactions(
    broker: str, tmp_path: Path
) -> None:
    file = tmp_path / "payloads"
    file.write_text("one;zwei;;drei;;")
    words = ["--topic", "payloads", "--num-records", "300", "--throughput", "1000"]
    words += ["--payload-file", str(file), "--payload-delimiter", ";"]
    words += ["--transaction-duration-ms", "50", "--print-metrics"]
    words += ["--producer-props", f"bootstrap.servers={broker}"]
    result = our_tool_here("producer-perf-test", words)
    lines = result.output.splitlines()
    assert lines[:2] == [f"Reading payloads from: {file}", "Number of messages read: 4"]
    report = REPORT.match(lines[2])
    assert report is not None
    assert report[1] == "300"
    assert 100 < float(report[2]) <= 1100
    sent = [line for line in lines if line.startswith("producer-topic-metrics:record-send-total:")]
    assert len(sent) == 1
    assert sent[0].endswith(" : 300.000")
    assert set(values_of(broker, "payloads", 300)) == {b"one", b"zwei", b"", b"drei"}


def test_missing_topic_ends_the_tool_with_the_reason(broker: str) -> None:
    words = ["--topic", "bad name", "--num-records", "3", "--throughput", "-1"]
    words += ["--payload-monotonic", "--producer-props", f"bootstrap.servers={broker}"]
    result = our_tool_here("producer-perf-test", words)
    assert result.exit_code == 1
    assert "InvalidTopicException" in result.errors
    assert not result.output


@given(
    st.lists(st.tuples(st.integers(0, 9_000), st.integers(0, 900)), min_size=1, max_size=60),
    st.integers(0, 2),
)
def test_windows_count_each_record_once_and_percentiles_are_of_all(
    rows: list[tuple[int, int]], extra: int
) -> None:
    statistics = Statistics(len(rows) + extra, 0)
    now_ms, counted = 0, []
    for latency_ms, step_ms in rows:
        now_ms += step_ms
        line = statistics.record(latency_ms, 1000, now_ms)
        if line is not None:
            counted.append(int(line.split()[0]))
    latencies = sorted(latency for latency, _ in rows)
    assert sum(counted) <= len(rows)
    assert len(counted) <= now_ms // 5000
    total = statistics.total_line(now_ms)
    assert total.startswith(f"{len(rows)} records sent, ")
    expected = [latencies[int(quantile * len(rows))] for quantile in QUANTILES]
    assert [int(text) for text in re.findall(r"(\d+) ms [\d.]+th", total)] == expected


@given(st.sampled_from((0.5, 3.0, 1000.0, 1e6)), st.lists(st.integers(0, 3000), max_size=40))
def test_pace_never_exceeds_the_throughput(throughput: float, steps_ms: list[int]) -> None:
    pace, sent, now_s = Pace(throughput, 0.0), 0, 0.0
    for step_ms in steps_ms:
        now_s += step_ms / 1000
        due = pace.due(sent, now_s)
        assert 0 <= due <= RECORDS_AT_ONCE
        sent += due
        assert sent <= now_s * throughput + 1
        assert due == RECORDS_AT_ONCE or sent >= int(now_s * throughput)
