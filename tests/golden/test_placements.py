"""Replicas are placed where Apache Kafka's AdminUtils places them.

Recorded with the jars of a 3.9.2 broker (`tests.support.maven.broker_libraries`):
`java -cp "LIBS/*" tests/golden/Placements.java > tests/golden/placements.jsonl`
"""

from __future__ import annotations

import json
from pathlib import Path

from odradek.controller.decide.placement import place
from odradek.controller.image.image import BrokerImage

RECORDED = Path(__file__).parent / "placements.jsonl"


def test_replicas_are_placed_as_by_apache_kafka() -> None:
    rows = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    assert len(rows) > 200
    for row in rows:
        brokers = [
            BrokerImage(3 * index + 1, 1, (), rack) for index, rack in enumerate(row["racks"])
        ]
        placed = place(
            brokers,
            partitions=3 * len(brokers),
            replication_factor=row["replicas"],
            start=row["start"],
            shift=row["start"],
            first_partition=row["first"],
        )
        assert [list(placed[partition]) for partition in sorted(placed)] == row["placed"], row
