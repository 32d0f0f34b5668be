"""Watermarks of a partition by librdkafka, also just after its leader has changed."""

from __future__ import annotations

import threading
import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

MOVED: Final = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
)
POLL_S: Final = 0.05


def watermarks(
    consumer: Consumer, topic: str, partition: int, *, timeout_s: float
) -> tuple[int, int]:
    """(low, high): a broker that does not know of a new leader yet is asked again.

    raises  KafkaException of another kind, or of these after `timeout_s`
    """
    deadline_s = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        try:
            low, high = consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=timeout_s
            )
        except KafkaException as failure:
            if failure.args[0].code() not in MOVED or time.monotonic() >= deadline_s:
                raise
            pause.wait(POLL_S)
        else:
            return low, high
