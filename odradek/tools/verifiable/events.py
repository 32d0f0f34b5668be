"""The events of the verifiable tools: one JSON object a line, in the order of Kafka's fields.

Source: Kafka 3.9's VerifiableProducer and VerifiableConsumer.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Final

from odradek.tools.console.errors import exception_line

TIMESTAMP: Final = "timestamp"


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def print_event(name: str, **fields: Any) -> None:
    """Print an event on stdout at once."""
    event = {TIMESTAMP: now_ms(), "name": name, **fields}
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    print(text, file=sys.stdout, flush=True)


def exception_of(error: Any) -> tuple[str, str]:
    """Java's exception class and its message, of a confluent_kafka.KafkaError."""
    kind, _, text = exception_line(error).partition(": ")
    return kind, text
