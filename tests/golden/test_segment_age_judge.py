"""When a segment is closed, beside Apache Kafka: segment.ms and max.compaction.lag.ms."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from tests.scripts.chapters.batches import produce_request
from tests.scripts.talk import Talk
from tests.support.apache import apache_node
from tests.support.broker_process import odradek_broker

pytestmark = pytest.mark.judge

START_MS = 1_751_328_000_000
MINUTE_MS = 60_000
TOPICS = {
    "compacted": {"cleanup.policy": "compact", "max.compaction.lag.ms": "150000"},
    "both": {"cleanup.policy": "compact,delete", "max.compaction.lag.ms": "150000"},
    "deleted": {"cleanup.policy": "delete", "max.compaction.lag.ms": "150000"},
    "shorter": {
        "cleanup.policy": "compact",
        "max.compaction.lag.ms": "150000",
        "segment.ms": "70000",
    },
    "longer": {
        "cleanup.policy": "compact",
        "max.compaction.lag.ms": "70000",
        "segment.ms": "150000",
    },
    "never": {"cleanup.policy": "compact"},
}


def bases_of(address: str, data: Path) -> dict[str, list[str]]:
    """Produce six records a minute apart into every topic; its segments then."""
    talk = Talk(address)
    for topic, configs in TOPICS.items():
        talk.make_topic(topic, configs={"segment.ms": "604800000", **configs})
        for number in range(6):
            record = Record(b"key", b"%d" % number, timestamp_ms=START_MS + number * MINUTE_MS)
            response = talk.quiet(produce_request(topic, build_batch([record])), 9)
            assert response.responses[0].partition_responses[0].error_code == 0
    talk.close()
    return {topic: sorted(path.stem for path in data.glob(f"{topic}-0/*.log")) for topic in TOPICS}


def test_segments_roll_at_the_same_offsets_as_in_apache_kafka(tmp_path: Path) -> None:
    settings = {"log.cleaner.enable": "false"}
    with odradek_broker(tmp_path / "ours", overrides=settings) as broker:
        bases_of_topics = bases_of(broker.address, broker.data)
    with apache_node(tmp_path / "apache", overrides=settings) as apache:
        assert bases_of_topics == bases_of(apache.address, apache.data)
    assert {topic: len(bases) for topic, bases in bases_of_topics.items()} == {
        "compacted": 2,
        "both": 2,
        "deleted": 1,
        "shorter": 3,
        "longer": 3,
        "never": 1,
    }
