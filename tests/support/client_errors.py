"""Errors that a client of librdkafka reports to its callback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import KafkaError

from tests.support.compacted import wait_until

LOGIN: Final = "_AUTHENTICATION"


def wait_for_error(client: Any, errors: Sequence[KafkaError], name: str) -> None:
    """Poll a client until its callback has added an error of this name."""

    def has_error() -> bool:
        client.poll(0.05)
        return name in {error.name() for error in errors}

    wait_until(f"an error {name} of a client", has_error, timeout_s=60.0)
