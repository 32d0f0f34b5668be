"""The subscription of a console consumer: a topic, a partition, or the topics of a pattern.

A missing topic is looked up until it exists (the look-up creates it where the cluster allows that).
Patterns are matched here, because librdkafka has no Java patterns.
"""

from __future__ import annotations

import re
import time
from typing import Any, Final

from odradek.tools.console.errors import ConsoleError, log

INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
RETRY_S: Final = 0.2
"""Interval between two look-ups of a missing topic."""
LOOKUP_TIMEOUT_S: Final = 0.5


class Subscription:
    """Keeps a consumer subscribed to the topics that exist."""

    def __init__(
        self,
        consumer: Any,
        *,
        topic: str | None,
        pattern: re.Pattern[str] | None,
        partition: int | None,
        offset: int,
        refresh_s: float,
        excludes_internal: bool,
    ) -> None:
        """
        topic, pattern     exactly one is given
        partition, offset  assign this partition of the topic instead of joining the group; the
                           offset may be LATEST or EARLIEST
        refresh_s          interval between two look-ups of topics that match the pattern
        """
        self._consumer = consumer
        self._topic = topic
        self._pattern = pattern
        self._partition = partition
        self._offset = offset
        self._refresh_s = refresh_s
        self._excludes_internal = excludes_internal
        self._next_lookup: float | None = 0.0
        self._names: list[str] = []
        self._logged_error = ""

    def refresh(self) -> None:
        """Look topics up and subscribe, if the next look-up is due.

        raises  ConsoleError for a topic that cannot be read
        """
        now = time.monotonic()
        if self._next_lookup is None or now < self._next_lookup:
            return
        if self._pattern is not None:
            self._match(self._pattern)
        else:
            self._find()

    def _topics(self, topic: str | None) -> Any:
        """Topics by name, or None when no broker responds."""
        from confluent_kafka import KafkaException

        try:
            metadata = self._consumer.list_topics(topic, timeout=LOOKUP_TIMEOUT_S)
        except KafkaException:
            return None
        return metadata.topics

    def _match(self, pattern: re.Pattern[str]) -> None:
        topics = self._topics(None)
        if topics is None:
            self._next_lookup = time.monotonic() + RETRY_S
            return
        names = sorted(
            name
            for name in topics
            if pattern.fullmatch(name) and not (self._excludes_internal and name in INTERNAL_TOPICS)
        )
        if names and names != self._names:
            self._consumer.subscribe(names)
        self._names = names
        self._next_lookup = time.monotonic() + self._refresh_s

    def _find(self) -> None:
        from confluent_kafka import TopicPartition

        assert self._topic is not None, "a topic or a pattern is given"
        topics = self._topics(self._topic)
        self._next_lookup = time.monotonic() + RETRY_S
        if topics is None:
            return
        topic = topics[self._topic]
        if topic.error is not None:
            self._check(topic.error)
            return
        if self._partition is None:
            self._consumer.subscribe([self._topic])
        elif self._partition in topic.partitions:
            position = TopicPartition(self._topic, self._partition, self._offset)
            self._consumer.assign([position])
        else:
            return
        self._next_lookup = None

    def _check(self, error: Any) -> None:
        name = error.name()
        errors = "org.apache.kafka.common.errors"
        if name == "TOPIC_EXCEPTION":
            raise ConsoleError(
                f"{errors}.InvalidTopicException", f"Invalid topics: [{self._topic}]"
            )
        if name == "TOPIC_AUTHORIZATION_FAILED":
            raise ConsoleError(
                f"{errors}.TopicAuthorizationException",
                f"Not authorized to access topics: [{self._topic}]",
            )
        if name != self._logged_error:
            self._logged_error = name
            log("WARN", f"The topic {self._topic} does not exist: {error.str()}", "Consumer")
