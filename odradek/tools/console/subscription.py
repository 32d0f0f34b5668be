"""What a console consumer reads: a topic, a partition of it, or all topics that match a pattern.

The library subscribes to what exists: topics are looked for here until they are there (asking for
one makes it, where the cluster does that), and a pattern is matched here, since Java's patterns are
not those of the C library.
"""

from __future__ import annotations

import re
import time
from typing import Any, Final

from odradek.tools.console.errors import ConsoleError, log

INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
LOOKS_S: Final = 0.2
"""Between two looks for a topic that is not there."""
LOOK_TIMEOUT_S: Final = 0.5


class Subscription:
    """Keeps a consumer subscribed."""

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
        topic, pattern     one of the two
        partition, offset  of the topic, without a group; LATEST and EARLIEST as Kafka writes them
        refresh_s          between two looks for new topics that match
        """
        self._consumer = consumer
        self._topic = topic
        self._pattern = pattern
        self._partition = partition
        self._offset = offset
        self._refresh_s = refresh_s
        self._excludes_internal = excludes_internal
        self._next_look: float | None = 0.0
        self._names: list[str] = []
        self._told = ""

    def refresh(self) -> None:
        """Look again, if it is time to.

        raises  ConsoleError for a topic that can never be read
        """
        now = time.monotonic()
        if self._next_look is None or now < self._next_look:
            return
        if self._pattern is not None:
            self._match(self._pattern)
        else:
            self._find()

    def _look(self, topic: str | None) -> Any:
        """Topics by name, or None when no broker answers."""
        from confluent_kafka import KafkaException

        try:
            found = self._consumer.list_topics(topic, timeout=LOOK_TIMEOUT_S)
        except KafkaException:
            return None
        return found.topics

    def _match(self, pattern: re.Pattern[str]) -> None:
        topics = self._look(None)
        if topics is None:
            self._next_look = time.monotonic() + LOOKS_S
            return
        names = sorted(
            name
            for name in topics
            if pattern.fullmatch(name) and not (self._excludes_internal and name in INTERNAL_TOPICS)
        )
        if names and names != self._names:
            self._consumer.subscribe(names)
        self._names = names
        self._next_look = time.monotonic() + self._refresh_s

    def _find(self) -> None:
        from confluent_kafka import TopicPartition

        assert self._topic is not None, "there is a topic where there is no pattern"
        topics = self._look(self._topic)
        self._next_look = time.monotonic() + LOOKS_S
        if topics is None:
            return
        found = topics[self._topic]
        if found.error is not None:
            self._check(found.error)
            return
        if self._partition is None:
            self._consumer.subscribe([self._topic])
        elif self._partition in found.partitions:
            place = TopicPartition(self._topic, self._partition, self._offset)
            self._consumer.assign([place])
        else:
            return
        self._next_look = None

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
        if name != self._told:
            self._told = name
            log("WARN", f"The topic {self._topic} is not there: {error.str()}", "Consumer")
