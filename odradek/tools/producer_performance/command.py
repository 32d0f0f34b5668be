"""`odradek producer-perf-test`: the flags and lines of `kafka-producer-perf-test.sh` 3.9.

Exit codes: 0 when all records were sent (a failed delivery is reported on stderr only, as in
Kafka's tool); 1 for an invalid property or payload file, and when the topic cannot be written;
2 for an invalid command line; 130 after Ctrl-C.
Differs from Kafka: a topic that does not exist ends the tool, not each of its records after
`max.block.ms`.
Source: Kafka 3.9's ProducerPerformance.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from odradek.tools.argument_parser import (
    ArgumentParser,
    double,
    file_path,
    int32,
    int64,
    pair,
    run_parsed,
)
from odradek.tools.arguments import add_arguments
from odradek.tools.console.errors import ConsoleError, exception_line, exception_of, run_uncaught
from odradek.tools.console.library import missing_topic_reason
from odradek.tools.console.properties import PRODUCER, load_properties
from odradek.tools.library_client import LastStatistics, open_client
from odradek.tools.producer_performance import payloads
from odradek.tools.producer_performance.statistics import Statistics

TRANSACTIONAL_ID: Final = "performance-producer-default-transactional-id"
CLIENT_ID: Final = "perf-producer-client"
RECORDS_AT_ONCE: Final = 500
"""Records that the library takes with one call: a call for each costs three times the time."""
POLL_S: Final = 0.2
"""Bound on the delay of the end after Ctrl-C."""
PAUSE_S: Final = 0.002
"""The shortest pause when the throughput is limited, as in Kafka's ThroughputThrottler."""
TRANSACTION_TIMEOUT_S: Final = 60.0


class PerformanceOptions(NamedTuple):
    """The values of the command line."""

    topic: str
    num_records: int
    record_size: int | None
    """Bytes of each value."""
    payload_file: str | None
    payload_delimiter: str
    throughput: float
    """Records a second; negative: as many as possible; 0: one record, and then none."""
    producer_props: list[str]
    producer_config: str | None
    print_metrics: bool
    transactional_id: str
    transaction_duration_ms: int
    """Age at which a transaction is committed; 0 or less: records are sent without transactions."""


def parser() -> ArgumentParser:
    """The parser of the command line."""
    parser = ArgumentParser(
        prog="producer-performance",
        description="Measure how many records a second a producer gets acknowledged.",
    )
    add_arguments(
        parser,
        "producer-perf-test",
        {
            "--num-records": int64,
            "--payload-delimiter": {"default": "\\n"},
            "--throughput": double,
            "--producer-props": {"nargs": "+", "default": [], "type": pair},
            "--producer.config": file_path,
            "--transactional-id": {"default": TRANSACTIONAL_ID},
            "--transaction-duration-ms": {"type": int64, "default": 0},
        },
    )
    payload = parser.add_mutually_exclusive_group(required=True)
    add_arguments(
        payload, "producer-perf-test payload", {"--record-size": int32, "--payload-file": file_path}
    )
    return parser


def checked_options(parser: ArgumentParser, values: argparse.Namespace) -> PerformanceOptions:
    """The values of a command line; ends the process as for any other error of it."""
    named = {name.replace(".", "_"): value for name, value in vars(values).items()}
    options = PerformanceOptions(**{name: named[name] for name in PerformanceOptions._fields})
    if options.num_records <= 0:
        parser.error("--num-records should be greater than zero")
    if options.record_size is not None and options.record_size <= 0:
        parser.error("--record-size should be greater than zero")
    if not options.producer_props and options.producer_config is None:
        parser.error("Either --producer-props or --producer.config must be specified.")
    return options


def producer_properties(options: PerformanceOptions) -> dict[str, str]:
    """The properties of the producer: --producer-props before --producer.config.

    Differs from Kafka: `batch.size` is librdkafka's, 1 MB, unless it is given.
    raises  ConsoleError for an unreadable file, and for a property that is not a pair
    """
    path = options.producer_config
    properties = {} if path is None else load_properties(path)
    for text in options.producer_props:
        pieces = text.rstrip("=").split("=")
        if len(pieces) != 2:
            raise ConsoleError("java.lang.IllegalArgumentException", f"Invalid property: {text}")
        properties[pieces[0]] = pieces[1]
    properties.setdefault("client.id", CLIENT_ID)
    properties.setdefault("bootstrap.servers", "")
    properties.setdefault("buffer.memory", "33554432")
    properties.setdefault("linger.ms", "0")
    properties.setdefault("max.block.ms", "60000")
    return properties


def transactional_configs(transactional_id: str, properties: dict[str, str]) -> dict[str, str]:
    """What makes a producer of librdkafka transactional.

    Deliveries must end before a transaction does, which Kafka's producer does not ask for.
    """
    timeout_ms = properties.pop("transaction.timeout.ms", "60000")
    properties.pop("transactional.id", None)
    properties.setdefault("delivery.timeout.ms", timeout_ms)
    return {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}


def main(arguments: Sequence[str]) -> int:
    command_line = parser()

    def act(values: argparse.Namespace) -> int:
        options = checked_options(command_line, values)
        return run_uncaught(partial(_run, options))

    return run_parsed(command_line, arguments, act)


def _payloads(options: PerformanceOptions) -> payloads.Payloads:
    if options.record_size is not None:
        return payloads.random_letters(options.record_size, options.num_records)
    if options.payload_file is not None:
        return payloads.lines_of_file(options.payload_file, options.payload_delimiter)
    return payloads.numbers


def _run(options: PerformanceOptions) -> int:
    values = _payloads(options)
    properties = producer_properties(options)
    extra: dict[str, Any] = {"delivery.report.only.error": False}
    is_transactional = options.transaction_duration_ms > 0
    if is_transactional:
        extra.update(transactional_configs(options.transactional_id, properties))
    last = LastStatistics() if options.print_metrics else None
    if last is not None:
        extra.update(last.configs())
    sender = Sender(options, open_client(PRODUCER, properties, extra), properties)
    sender.run(values, is_transactional=is_transactional)
    print(sender.statistics.total_line(_now_ms()), flush=True)
    if last is not None:
        print("\n".join(last.lines(PRODUCER, sender.producer)), flush=True)
    return 0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Sender:
    """Sends the records of a run in batches, and counts those that are acknowledged."""

    def __init__(
        self, options: PerformanceOptions, producer: Any, properties: dict[str, str]
    ) -> None:
        self.producer = producer
        self._options = options
        self._max_block_ms = int(properties["max.block.ms"])
        self.statistics = Statistics(options.num_records, _now_ms())

    def run(self, values: payloads.Payloads, *, is_transactional: bool) -> None:
        """Send all records, and wait until each is acknowledged or has failed.

        raises  ConsoleError when the topic does not exist, or a transaction fails
        """
        reason = missing_topic_reason(self.producer, self._options.topic, self._max_block_ms)
        if reason is not None:
            raise ConsoleError(*reason.split(": ", 1))
        transactions = Transactions(self.producer, self._options.transaction_duration_ms)
        if is_transactional:
            transactions.initialize()
        # The time of the first look-up of the topic is not part of the run.
        self.statistics = Statistics(self._options.num_records, _now_ms())
        sent = 0
        pace = Pace(self._options.throughput, time.monotonic())
        while sent < self._options.num_records:
            count = min(pace.due(sent, time.monotonic()), self._options.num_records - sent)
            if count == 0:
                self.producer.poll(PAUSE_S)
                continue
            if is_transactional:
                transactions.begin(_now_ms())
            self._send(values(sent, count))
            sent += count
            if is_transactional:
                transactions.commit_if_old(_now_ms())
        if is_transactional:
            transactions.commit()
        while self.producer.flush(POLL_S):
            pass

    def _send(self, rows: list[dict[str, Any]]) -> None:
        now_ms = _now_ms()
        delivered = partial(self._delivered, now_ms)
        deadline_ms = now_ms + self._max_block_ms
        while True:
            queued = self.producer.produce_batch(self._options.topic, rows, on_delivery=delivered)
            self.producer.poll(0)
            if queued == len(rows):
                return
            rows = [row for row in rows if row.pop("_error", None) is not None]
            if _now_ms() >= deadline_ms:
                for _ in rows:
                    _print_failure(
                        "org.apache.kafka.clients.producer.BufferExhaustedException: Failed to "
                        "allocate memory within the configured max blocking time "
                        f"{self._max_block_ms} ms."
                    )
                return
            self.producer.poll(0.01)

    def _delivered(self, sent_ms: int, error: Any, message: Any) -> None:
        if error is not None:
            _print_failure(exception_line(error))
            return
        now_ms = _now_ms()
        line = self.statistics.record(now_ms - sent_ms, len(message), now_ms)
        if line is not None:
            print(line, flush=True)


def _print_failure(text: str) -> None:
    print(text, file=sys.stderr)


class Pace:
    """How many records are due at a throughput.  Source: Kafka's ThroughputThrottler."""

    def __init__(self, throughput: float, start_s: float) -> None:
        """throughput  records a second; negative: no limit"""
        self._throughput = throughput
        self._start_s = start_s

    def due(self, sent: int, now_s: float) -> int:
        """How many of the next RECORDS_AT_ONCE records may be sent; the first always may."""
        if self._throughput < 0:
            return RECORDS_AT_ONCE
        allowed = int((now_s - self._start_s) * self._throughput) + 1 - sent
        return min(max(allowed, 0), RECORDS_AT_ONCE)


class Transactions:
    """Begins and commits the transactions of a producer.

    Each step raises ConsoleError when it fails.
    """

    def __init__(self, producer: Any, duration_ms: int) -> None:
        """duration_ms  the age at which a transaction is committed"""
        self._producer = producer
        self._duration_ms = duration_ms
        self._began_ms: int | None = None

    def initialize(self) -> None:
        """Fence earlier producers of the transactional id."""
        self._step(partial(self._producer.init_transactions, TRANSACTION_TIMEOUT_S))

    def begin(self, now_ms: int) -> None:
        """Begin a transaction unless one is open."""
        if self._began_ms is None:
            self._step(self._producer.begin_transaction)
            self._began_ms = now_ms

    def commit_if_old(self, now_ms: int) -> None:
        """Commit the open transaction if it has reached its duration."""
        if self._began_ms is not None and now_ms - self._began_ms >= self._duration_ms:
            self.commit()

    def commit(self) -> None:
        """Commit the open transaction, if there is one."""
        if self._began_ms is not None:
            self._step(partial(self._producer.commit_transaction, TRANSACTION_TIMEOUT_S))
            self._began_ms = None

    @staticmethod
    def _step(step: Callable[[], None]) -> None:
        from confluent_kafka import KafkaException

        try:
            step()
        except KafkaException as exception:
            raise ConsoleError(*exception_of(exception.args[0])) from exception
