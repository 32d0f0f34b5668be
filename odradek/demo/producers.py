"""Producers that send records all the time, and what became of these."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from odradek.tools.console.library import library

MESSAGE_TIMEOUT_MS: Final = 300_000


class TimedProducer:
    """Sends to partition 0 of a topic; each record names its producer and has a number.

    Times are in ms of one clock that the caller chooses.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        name: str,
        acks: int = -1,
        request_timeout_ms: int,
        retries: bool = True,
    ) -> None:
        """
        request_timeout_ms  how long the leader waits for followers
        retries             without, an error of the broker is final, and one request is sent at a
                            time

        raises  LibraryMissingError
        """
        self.name = name
        self.request_timeout_ms = request_timeout_ms
        self.acknowledged: list[str] = []
        """Values of the records that were acknowledged; with acks=0, that were sent."""
        self.errors: Counter[str] = Counter()
        """Name of an error -> number of records."""
        self.last_acknowledged_ms = 0.0
        self._longest_ms = 0.0
        self._topic = topic
        self._now_ms = 0.0
        self._sent = 0
        configs: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            "acks": acks,
            "request.timeout.ms": request_timeout_ms,
            "message.timeout.ms": MESSAGE_TIMEOUT_MS + request_timeout_ms,
            "linger.ms": 0,
            "log_level": 0,
        }
        if not retries:
            configs |= {"message.send.max.retries": 0, "max.in.flight": 1}
        self._producer = library().Producer(configs)

    @property
    def unfinished(self) -> int:
        """How many records have neither been acknowledged nor failed."""
        return len(self._producer)

    def send(self, now_ms: float) -> None:
        """One record, without waiting."""
        value = f"{self.name}:{self._sent}"
        if not self._sent:
            self.last_acknowledged_ms = now_ms
        self._sent += 1
        try:
            self._producer.produce(
                self._topic,
                value.encode(),
                partition=0,
                on_delivery=lambda error, _: self._on_delivery(value, error),
            )
        except BufferError:
            self.errors["queue full"] += 1

    def take(self, now_ms: float) -> None:
        """Take the acknowledgements that have arrived."""
        self._now_ms = now_ms
        self._producer.poll(0)

    def measure_waits(self, now_ms: float) -> None:
        """Forget the waits until now."""
        self.last_acknowledged_ms = now_ms
        self._longest_ms = 0.0

    def longest_ms(self, now_ms: float) -> float:
        """The longest time without an acknowledgement, the present one included."""
        return max(self._longest_ms, now_ms - self.last_acknowledged_ms)

    def _on_delivery(self, value: str, error: Any) -> None:
        if error is not None:
            self.errors[error.name()] += 1
            return
        self.acknowledged.append(value)
        self._longest_ms = self.longest_ms(self._now_ms)
        self.last_acknowledged_ms = self._now_ms
