"""Reads partition 0 of a topic from its beginning."""

from __future__ import annotations

from time import monotonic
from typing import Final

from odradek.demo.claims import DemoError
from odradek.tools.console.library import library

POLL_S: Final = 1.0
TIMEOUT_S: Final = 60.0


def read_all(bootstrap: str, topic: str, *, is_committed: bool) -> list[str]:
    """The values up to the high watermark, or with read_committed up to the last stable offset.

    raises  DemoError when the end is not reached in time
    """
    module = library()
    consumer = module.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "odradek-demo",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # The end is reported after a fetch that has waited for more.
            "fetch.wait.max.ms": 10,
            "isolation.level": "read_committed" if is_committed else "read_uncommitted",
            "log_level": 0,
        }
    )
    consumer.assign([module.TopicPartition(topic, 0, module.OFFSET_BEGINNING)])
    values: list[str] = []
    deadline_s = monotonic() + TIMEOUT_S
    try:
        while monotonic() < deadline_s:
            record = consumer.poll(POLL_S)
            if record is None:
                continue
            if record.error() is None:
                values.append(record.value().decode())
            elif record.error().code() == module.KafkaError._PARTITION_EOF:
                return values
    finally:
        consumer.close()
    raise DemoError(f"topic {topic} cannot be read to its end")
