"""Waits until a topic exists, before a producer sends to it."""

from __future__ import annotations

import time
from typing import Any, Final

from odradek.tools.console.errors import TIMEOUT_EXCEPTION

TOPIC_RETRY_S: Final = 0.1
"""Interval between two requests for the metadata of a missing topic."""
_ERRORS: Final = "org.apache.kafka.common.errors"


def missing_topic_reason(producer: Any, topic: str, max_block_ms: int) -> str | None:
    """Wait until the topic exists; returns None, or the reason why it does not.

    producer  a confluent_kafka.Producer
    """
    from confluent_kafka import KafkaError, KafkaException

    deadline = time.monotonic() + max_block_ms / 1000
    while True:
        remaining_s = max(deadline - time.monotonic(), 0.0)
        try:
            metadata = producer.list_topics(topic, timeout=min(remaining_s, 1.0))
            error = metadata.topics[topic].error
        except KafkaException as exception:
            error = exception.args[0]
        if error is None:
            return None
        if error.code() == KafkaError.TOPIC_EXCEPTION:
            return f"{_ERRORS}.InvalidTopicException: Invalid topics: [{topic}]"
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return (
                f"{_ERRORS}.TopicAuthorizationException: Not authorized to access topics: [{topic}]"
            )
        if time.monotonic() >= deadline:
            return (
                f"{TIMEOUT_EXCEPTION}: Topic {topic} not present in metadata after "
                f"{max_block_ms} ms."
            )
        producer.poll(min(TOPIC_RETRY_S, remaining_s))
