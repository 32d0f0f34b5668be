"""Producers of all client libraries in the background, and what each got acknowledged."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time

from tests.clients.contract import Client, How, Message
from tests.clients.libraries import connect

CALL_RECORDS = 5
PAUSE_S = 0.5
WAIT_S = 180.0
FAILURES_KEPT = 20


@dataclass
class Production:
    """What one library sent; a call writes to one partition."""

    acknowledged: dict[int, list[int]] = field(default_factory=dict)
    """By partition, in the order of sending: only what a successful call contained."""
    failures: list[str] = field(default_factory=list)
    """Of the calls that failed: their records may be there or not."""
    failed_count: int = 0
    sent: int = 0
    succeeded_since: float = 0.0
    """When the last successful call began."""


class LibraryProducer(threading.Thread):
    """Writes with one library until the end, a few records with a new producer each call."""

    def __init__(
        self, client: Client, topic: str, partitions: int, news: threading.Condition
    ) -> None:
        super().__init__(name=f"producer with {client.name}", daemon=True)
        self.client = client
        self.production = Production()
        self.is_idempotent = client.abilities.idempotent
        self._topic = topic
        self._partitions = partitions
        self._news = news
        self._ended = threading.Event()

    def run(self) -> None:
        call = 0
        while not self._ended.wait(PAUSE_S):
            self._call(call % self._partitions)
            call += 1

    def _call(self, partition: int) -> None:
        production = self.production
        numbers = range(production.sent, production.sent + CALL_RECORDS)
        production.sent += CALL_RECORDS
        stamp_ms = int(time() * 1000)
        name = self.client.name
        messages = [
            Message(partition, stamp_ms, name.encode(), f"{name} {number}".encode())
            for number in numbers
        ]
        began = monotonic()
        try:
            self.client.produce(self._topic, messages, How("none", "all", self.is_idempotent))
        except Exception as error:  # noqa: BLE001 - each library has its own
            with self._news:
                production.failed_count += 1
                production.failures.append(repr(error)[:500])
                del production.failures[:-FAILURES_KEPT]
            return
        with self._news:
            production.acknowledged.setdefault(partition, []).extend(numbers)
            production.succeeded_since = began
            self._news.notify_all()

    def end(self) -> None:
        """Send nothing any more; `join` waits for the call under way."""
        self._ended.set()


class LibraryProducers:
    """One producer for each library, all writing to one topic."""

    def __init__(
        self, libraries: Sequence[str], bootstrap: str, topic: str, partitions: int, folder: Path
    ) -> None:
        self._news = threading.Condition()
        self.slowest_close = (0.0, "")
        self.producers = {
            name: LibraryProducer(connect(name, bootstrap, folder), topic, partitions, self._news)
            for name in libraries
        }

    def wait_for_success(self) -> str:
        """Until each library has had a call that began after now and succeeded; returns which was
        the last."""
        since = monotonic()
        last = ""

        def behind() -> list[str]:
            return [
                name
                for name, producer in self.producers.items()
                if producer.production.succeeded_since < since
            ]

        with self._news:
            while left := behind():
                last = left[0]
                if not self._news.wait(max(0.0, since + WAIT_S - monotonic())):
                    errors = {name: self.producers[name].production.failures[-3:] for name in left}
                    raise AssertionError(f"no successful call in {WAIT_S} s: {errors}")
        return last

    def end(self) -> None:
        """Wait for the calls under way, and end the programs."""
        for producer in self.producers.values():
            producer.end()
        for producer in self.producers.values():
            producer.join(WAIT_S)
        for producer in self.producers.values():
            assert not producer.is_alive(), f"{producer.name} does not end"
            began = monotonic()
            producer.client.close()
            self.slowest_close = max(
                self.slowest_close, (monotonic() - began, producer.client.name)
            )

    def check(self, values: dict[int, list[bytes]]) -> None:
        """Compare with the values in each partition: nothing acknowledged is missing, and what was
        sent with idempotence is there at most once and in order."""
        for name, producer in self.producers.items():
            for partition, numbers in producer.production.acknowledged.items():
                there = numbers_of(name, values[partition])
                lost = sorted(set(numbers).difference(there))
                assert not lost, f"{name}: lost in partition {partition}: {lost}"
                if producer.is_idempotent:
                    doubled = [number for number, count in Counter(there).items() if count > 1]
                    assert not doubled, f"{name}: doubled in partition {partition}: {doubled}"
                    acknowledged = set(numbers)
                    kept = [number for number in there if number in acknowledged]
                    assert kept == numbers, f"{name}: partition {partition} is out of order"

    def count(self) -> int:
        """How many records are acknowledged."""
        return sum(
            len(numbers)
            for producer in self.producers.values()
            for numbers in producer.production.acknowledged.values()
        )


def numbers_of(name: str, values: Sequence[bytes]) -> list[int]:
    """The numbers that one library sent, in the order of their offsets."""
    parts = [value.decode().split(" ") for value in values]
    return [int(number) for library, number in parts if library == name]


@contextmanager
def library_producers(
    libraries: Sequence[str], bootstrap: str, topic: str, partitions: int, folder: Path
) -> Iterator[LibraryProducers]:
    """Producers that run while the block does."""
    producers = LibraryProducers(libraries, bootstrap, topic, partitions, folder)
    for producer in producers.producers.values():
        producer.start()
    try:
        yield producers
    finally:
        producers.end()
