"""What is written is read by prometheus-client's parsers, names with every letter included."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_open_metrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from odradek.broker.monitoring.exposition import Exposition, Family, Kind, label_text

RECEIVED = Family("odradek_received_total", Kind.COUNTER, "Records that came.")
HELD = Family("odradek_held_bytes", Kind.GAUGE, "Bytes that are held.")
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.lists(st.tuples(NAMES, st.integers(0, 2**63 - 1)), unique_by=lambda row: row[0]))
def test_prometheus_reads_every_label_and_value(rows: list[tuple[str, int]]) -> None:
    text = Exposition(is_open_metrics=False)
    text.metric(HELD, 1.5)
    text.begin(RECEIVED)
    text.rows(RECEIVED, [(label_text({"topic": name}), value) for name, value in rows])
    held, received = parse_prometheus(b"".join(text.encode()).decode())
    assert (held.name, held.type, held.samples[0].value) == ("odradek_held_bytes", "gauge", 1.5)
    assert (received.name, received.type) == ("odradek_received", "counter")
    read = [(sample.labels["topic"], float(sample.value)) for sample in received.samples]
    assert read == [(name, float(value)) for name, value in rows]


@pytest.mark.parametrize("name", ["plain", 'a"b', "a\\b", "a\nb", "<script>", "é", "{x}"])
def test_open_metrics_is_read_to_its_end(name: str) -> None:
    text = Exposition(is_open_metrics=True)
    text.begin(RECEIVED)
    text.sample(RECEIVED, 7, {"topic": name, "partition": "0"})
    text.metric(HELD, 2)
    received, held = parse_open_metrics(b"".join(text.encode()).decode())  # type: ignore[no-untyped-call]
    assert received.type == "counter"
    assert [(sample.name, sample.labels["topic"], sample.value) for sample in received.samples] == [
        ("odradek_received_total", name, 7)
    ]
    assert held.samples[0].value == 2
