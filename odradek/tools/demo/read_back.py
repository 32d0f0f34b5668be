"""Reads a partition from its beginning to its end."""

from __future__ import annotations

from time import monotonic
from typing import Final

from odradek.tools.console.library import library

BATCH: Final = 10_000
POLL_S: Final = 1.0
TIMEOUT_S: Final = 60.0


def read_values(bootstrap: str, topic: str, end_offset: int) -> set[str]:
    """The values of partition 0 up to an offset; fewer when they do not come in time."""
    module = library()
    consumer = module.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "odradek-demo",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([module.TopicPartition(topic, 0, module.OFFSET_BEGINNING)])
    found: set[str] = set()
    offset = 0
    deadline_s = monotonic() + TIMEOUT_S
    while offset < end_offset and monotonic() < deadline_s:
        for record in consumer.consume(BATCH, POLL_S):
            if record.error() is None:
                offset = record.offset() + 1
                found.add(record.value().decode())
    consumer.close()
    return found
