"""When a segment is closed, beside Apache Kafka: segment.ms and max.compaction.lag.ms."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from tests.scripts.chapters.batches import produce_request
from tests.scripts.talk import Talk
from tests.support.apache import ApacheBroker, apache_node
from tests.support.broker_process import BrokerProcess, odradek_broker

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


BASES = {
    "compacted": [0, 3],
    "both": [0, 3],
    "deleted": [0],
    "shorter": [0, 2, 4],
    "longer": [0, 2, 4],
    "never": [0],
}
"""The base offsets of the segments that Apache Kafka 3.9.2 has then."""

Run = Callable[..., AbstractContextManager[BrokerProcess] | AbstractContextManager[ApacheBroker]]


def bases_of(address: str, data: Path) -> dict[str, list[int]]:
    """Produce six records a minute apart into every topic; its segments then."""
    talk = Talk(address)
    for topic, configs in TOPICS.items():
        talk.make_topic(topic, configs={"segment.ms": "604800000", **configs})
        for number in range(6):
            record = Record(b"key", b"%d" % number, timestamp_ms=START_MS + number * MINUTE_MS)
            response = talk.quiet(produce_request(topic, build_batch([record])), 9)
            assert response.responses[0].partition_responses[0].error_code == 0
    talk.close()
    return {
        topic: sorted(int(path.stem) for path in data.glob(f"{topic}-0/*.log")) for topic in TOPICS
    }


@pytest.mark.parametrize(
    "run", [odradek_broker, pytest.param(apache_node, marks=[pytest.mark.judge, pytest.mark.slow])]
)
def test_segments_roll_at_the_offsets_of_apache_kafka(run: Run, tmp_path: Path) -> None:
    with run(tmp_path, overrides={"log.cleaner.enable": "false"}) as broker:
        assert bases_of(broker.address, broker.data) == BASES
