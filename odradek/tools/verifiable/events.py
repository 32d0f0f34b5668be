"""The events of the verifiable tools: one JSON object a line, in the order of Kafka's fields.

Source: Kafka 3.9's VerifiableProducer and VerifiableConsumer.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Final

TIMESTAMP: Final = "timestamp"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def print_event(name: str, **fields: Any) -> None:
    """Print an event on stdout at once."""
    event = {TIMESTAMP: now_ms(), "name": name, **fields}
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    print(text, file=sys.stdout, flush=True)
