"""An honest client beside an attack: how long does it wait?

    python -m tests.attack.canary HOST:PORT TOPIC

A process of its own, so that what the attacker computes does not count.  It asks ApiVersions every
20 ms, produces and fetches a record every 50 ms, and produces one through librdkafka every 50 ms,
each on a connection of its own.  For each line on its standard input it prints what it saw since
the last one, as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Protocol, Self

from confluent_kafka import KafkaError, Message, Producer

from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.schema import ZERO_UUID
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.chapters.fetch import fetch_request
from tests.support.wire import Closed, Wire

ASK_EVERY_S = 0.02
PRODUCE_EVERY_S = 0.05
TIMEOUT_S = 60.0
PROBES = ("ask", "produce", "librdkafka")


@dataclass(frozen=True, slots=True)
class Waits:
    """What one probe saw."""

    count: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    failures: int
    """Errors and connections that were closed or never answered."""


def summarise(waits_ms: list[float], failures: int) -> Waits:
    """Of at least one wait; zeros without."""
    ordered = sorted(waits_ms) or [0.0]
    return Waits(
        len(waits_ms),
        round(ordered[len(ordered) // 2], 2),
        round(ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)], 2),
        round(ordered[-1], 2),
        failures,
    )


class Client(Protocol):
    """One connection, or those of a library."""

    def ask(self) -> None:
        """Ask, and get the response.

        raises  AssertionError for an error or none, Closed and OSError
        """

    def close(self) -> None:
        """Leave."""


class VersionsClient:
    """Asks which APIs are served."""

    def __init__(self, address: str) -> None:
        self._wire = Wire(address, timeout_s=TIMEOUT_S)
        self.close = self._wire.close

    def ask(self) -> None:
        """As `Client.ask`."""
        self._wire.call(ApiVersionsRequest(), 0)


class RecordsClient:
    """Produces a record, and fetches it."""

    def __init__(self, address: str, topic: str) -> None:
        self._wire = Wire(address, timeout_s=TIMEOUT_S)
        self._topic = topic
        self.close = self._wire.close

    def ask(self) -> None:
        """As `Client.ask`."""
        written = self._wire.call(produce_request(self._topic, batch(1)), 9)
        stored = written.responses[0].partition_responses[0]
        assert stored.error_code == 0
        fetched = self._wire.call(fetch_request(self._topic, ZERO_UUID, stored.base_offset), 12)
        assert fetched.responses[0].partitions[0].records, "what was written is read"


class LibraryClient:
    """Produces a record through librdkafka."""

    def __init__(self, address: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
        self._outcomes: list[bool] = []

    def ask(self) -> None:
        """As `Client.ask`."""
        self._outcomes.clear()
        self._producer.produce(self._topic, b"value", on_delivery=self._on_delivery)
        self._producer.flush(TIMEOUT_S)
        assert self._outcomes == [True], "the record is acknowledged"

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        self._outcomes.append(error is None)

    def close(self) -> None:
        """As `Client.close`."""
        self._producer.purge()


class Probe(threading.Thread):
    """A client that asks at a pace."""

    def __init__(self, connect: Callable[[], Client], every_s: float) -> None:
        super().__init__(daemon=True)
        self._connect = connect
        self._every_s = every_s
        self._lock = threading.Lock()
        self._waits_ms: list[float] = []
        self._failures = 0
        self._under_way_s: float | None = None

    def run(self) -> None:
        """Until the process ends."""
        pause = threading.Event()
        client: Client | None = None
        while True:
            began_s = time.monotonic()
            self._under_way_s = began_s
            try:
                if client is None:
                    client = self._connect()
                client.ask()
            except (Closed, OSError, AssertionError):
                if client is not None:
                    client.close()
                client = None
                with self._lock:
                    self._failures += 1
            wait_s = time.monotonic() - began_s
            with self._lock:
                self._under_way_s = None
                self._waits_ms.append(wait_s * 1000)
            pause.wait(max(0.0, self._every_s - wait_s))

    def take(self) -> Waits:
        """What was seen since the last call; a request under way counts with what it has waited."""
        with self._lock:
            waits_ms, self._waits_ms = self._waits_ms, []
            failures, self._failures = self._failures, 0
            if self._under_way_s is not None:
                waits_ms.append((time.monotonic() - self._under_way_s) * 1000)
        return summarise(waits_ms, failures)


class Canary:
    """The process, from outside."""

    def __init__(self, address: str, topic: str) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.attack.canary", address, topic],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.take()

    def take(self) -> dict[str, Waits]:
        """What each probe saw since the last call."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        waits_by_name: dict[str, Any] = json.loads(self._child.stdout.readline())
        return {name: Waits(**waits) for name, waits in waits_by_name.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()


def main() -> None:
    """Probe until the input ends."""
    address, topic = sys.argv[1:]
    made = (
        Probe(partial(VersionsClient, address), ASK_EVERY_S),
        Probe(partial(RecordsClient, address, topic), PRODUCE_EVERY_S),
        Probe(partial(LibraryClient, address, topic), PRODUCE_EVERY_S),
    )
    probes = dict(zip(PROBES, made, strict=True))
    for probe in probes.values():
        probe.start()
    for _ in sys.stdin:
        print(
            json.dumps({name: asdict(probe.take()) for name, probe in probes.items()}), flush=True
        )


if __name__ == "__main__":
    main()
