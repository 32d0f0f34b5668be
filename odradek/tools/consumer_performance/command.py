"""`odradek consumer-perf-test`: the flags, columns and exit codes of `kafka-consumer-perf-test.sh`.

Exit codes: 0 when --messages were read, or none arrived for --timeout; 1 for an invalid property or
value, and an error that no retry mends; 2 for an invalid command line; 130 after Ctrl-C.
Source: Kafka 3.9's ConsumerPerformance.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from odradek.tools import options as command_line
from odradek.tools.console.errors import ConsoleError, print_exception
from odradek.tools.console.properties import CONSUMER, load_properties
from odradek.tools.consumer_performance.date_format import DateFormat
from odradek.tools.library_client import PERMANENT, LastStatistics, open_client, receive
from odradek.tools.options import INT32_MAX, INT64_MAX, Options, OptionsError, read_flags
from odradek.tools.run_command import run_command

WHAT_IT_DOES: Final = "This tool is used to verify the consumer performance."
TIMEOUT_MS: Final = 10_000
REPORT_MS: Final = 5_000
FETCH_BYTES: Final = 1 << 20
SOCKET_BYTES: Final = 2 << 20
DATE_FORMAT: Final = "yyyy-MM-dd HH:mm:ss:SSS"

FLAGS: Final = (*command_line.HELP_FLAGS, *read_flags("consumer-perf-test"))
MEGABYTE: Final = 1024 * 1024
COLUMNS: Final = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


def parse_options(arguments: Sequence[str]) -> Options:
    options = command_line.parse(
        FLAGS, arguments, WHAT_IT_DOES, may_be_empty=True, wrong_shows_help=True
    )
    if not options.has("bootstrap-server"):
        raise OptionsError("Missing required option(s) [bootstrap-server]", shows_help=True)
    command_line.require(options, "topic", "messages")
    return options


def text_of(options: Options, name: str) -> str:
    """The only value of a required option.

    raises  ConsoleError when it was given twice
    """
    try:
        return options.value(name) or ""
    except OptionsError as error:
        raise ConsoleError("joptsimple.MultipleArgumentsForOptionException", str(error)) from error


def number_of(options: Options, name: str, default: int, largest: int = INT64_MAX) -> int:
    """The value of an option that is a number.

    raises  ConsoleError with the exception of Java's parser
    """
    if options.values(name) == [""]:
        return default
    try:
        return options.number_or(name, default, largest)
    except OptionsError as error:
        raise ConsoleError("joptsimple.OptionArgumentConversionException", str(error)) from error


def report_interval_ms(options: Options) -> int:
    """The interval of --show-detailed-stats.

    raises  ConsoleError for one that is not positive
    """
    interval_ms = number_of(options, "reporting-interval", REPORT_MS)
    if interval_ms <= 0:
        raise ConsoleError(
            "java.lang.IllegalArgumentException", "Reporting interval must be greater than 0."
        )
    return interval_ms


def consumer_properties(options: Options, group: str) -> dict[str, str]:
    """The properties of the consumer: flags before --consumer.config.

    group   the group without --group
    raises  ConsoleError for an unreadable file and for an invalid number
    """
    path = options.value("consumer.config")
    properties = {} if path is None else load_properties(path)
    properties.setdefault("client.id", "perf-consumer-client")
    reset = "latest" if options.has("from-latest") else "earliest"
    fetch_bytes = number_of(options, "fetch-size", FETCH_BYTES, INT32_MAX)
    socket_bytes = number_of(options, "socket-buffer-size", SOCKET_BYTES, INT32_MAX)
    return properties | {
        "bootstrap.servers": text_of(options, "bootstrap-server"),
        "group.id": options.value("group") or group,
        "receive.buffer.bytes": str(socket_bytes),
        "max.partition.fetch.bytes": str(fetch_bytes),
        "auto.offset.reset": reset,
        "check.crcs": "false",
    }


def main(arguments: Sequence[str]) -> int:
    return run_command(arguments, FLAGS, parse_options, _act)


def _act(options: Options) -> int:
    is_detailed = options.has("show-detailed-stats")
    if not options.has("hide-header"):
        first = "time, threadId" if is_detailed else "start.time, end.time"
        print(f"{first}, {COLUMNS}", flush=True)
    try:
        _run(options, is_detailed=is_detailed)
    except ConsoleError as error:
        print_exception(error)
        return 1
    return 0


def _run(options: Options, *, is_detailed: bool) -> None:
    properties = consumer_properties(options, f"perf-consumer-{random.randrange(100_000)}")
    last = LastStatistics() if options.has("print-metrics") else None
    message_count = number_of(options, "messages", 0)
    timeout_ms = number_of(options, "timeout", TIMEOUT_MS)
    interval_ms = report_interval_ms(options)
    form = DateFormat(options.value("date-format") or DATE_FORMAT)
    consumer = open_client(CONSUMER, properties, {} if last is None else last.configs())
    metrics: list[str] = []
    try:
        count = Counter(consumer, now_ms())
        count.subscribe(text_of(options, "topic"))
        for row in count.read(message_count, timeout_ms, interval_ms):
            if is_detailed:
                print(detail_line(row, form), flush=True)
        end = count.row(now_ms())
        if last is not None:
            metrics = last.lines(CONSUMER, consumer)
    finally:
        consumer.close()
    if count.record_count < message_count:
        print(
            "WARNING: Exiting before consuming the expected number of messages: timeout "
            f"({timeout_ms} ms) exceeded. You can use the --timeout option to increase the timeout."
        )
    if not is_detailed:
        print(total_line(end, form))
    print("".join(f"{line}\n" for line in metrics), end="", flush=True)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class ConsumptionRow(NamedTuple):
    """What was read from `start_ms` to `end_ms`."""

    start_ms: int
    end_ms: int
    byte_count: int
    record_count: int
    join_ms: int
    """Time of it in which the consumer had no assignment."""
    bytes_total: int
    records_total: int


def rate(amount: float, elapsed_ms: float) -> str:
    """An amount a second, as Java prints a quotient: without time it is Infinity or NaN."""
    if elapsed_ms == 0:
        return "Infinity" if amount else "NaN"
    return f"{amount / (elapsed_ms / 1000):.4f}"


def total_line(row: ConsumptionRow, form: DateFormat) -> str:
    """The line of the whole run."""
    megabytes = row.bytes_total / MEGABYTE
    elapsed_ms = row.end_ms - row.start_ms
    fetch_ms = elapsed_ms - row.join_ms
    return (
        f"{form.text(row.start_ms)}, {form.text(row.end_ms)}, {megabytes:.4f}, "
        f"{rate(megabytes, elapsed_ms)}, {row.records_total}, "
        f"{rate(row.records_total, elapsed_ms)}, {row.join_ms}, {fetch_ms}, "
        f"{rate(megabytes, fetch_ms)}, {rate(row.records_total, fetch_ms)}"
    )


def detail_line(row: ConsumptionRow, form: DateFormat) -> str:
    """The line of an interval."""
    megabytes = row.byte_count / MEGABYTE
    elapsed_ms = row.end_ms - row.start_ms
    fetch_ms = elapsed_ms - row.join_ms
    in_fetches = fetch_ms if fetch_ms > 0 else float("inf")
    return (
        f"{form.text(row.end_ms)}, 0, {row.bytes_total / MEGABYTE:.4f}, "
        f"{rate(megabytes, elapsed_ms)}, {row.records_total}, "
        f"{rate(row.record_count, elapsed_ms)}, {row.join_ms}, {fetch_ms}, "
        f"{rate(megabytes, in_fetches)}, {rate(row.record_count, in_fetches)}"
    )


class Counter:
    """Counts what a consumer reads."""

    def __init__(self, consumer: Any, start_ms: int) -> None:
        self.record_count = 0
        self._byte_count = 0
        self._consumer = consumer
        self._start_ms = start_ms
        self._join_start_ms = start_ms
        self._join_ms = 0
        self._interval_join_ms = 0

    def subscribe(self, topic: str) -> None:
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)

    def _assigned(self, *_: object) -> None:
        elapsed_ms = now_ms() - self._join_start_ms
        self._join_ms += elapsed_ms
        self._interval_join_ms += elapsed_ms

    def _revoked(self, *_: object) -> None:
        self._join_start_ms = now_ms()

    def row(self, end_ms: int) -> ConsumptionRow:
        count, size = self.record_count, self._byte_count
        return ConsumptionRow(self._start_ms, end_ms, size, count, self._join_ms, size, count)

    def read(self, record_count: int, timeout_ms: int, interval_ms: int) -> Any:
        """Read at least `record_count` records, up to a poll more; yields a row for each interval.

        timeout_ms  end when no record arrives for so long
        raises      ConsoleError for an error that no retry mends
        """
        report_ms = last_ms = now_ms()
        counted, size = 0, 0
        at_ms = last_ms
        while self.record_count < record_count and at_ms - last_ms <= timeout_ms:
            messages = receive(self._consumer, is_permanent)
            at_ms = now_ms()
            if not messages:
                continue
            last_ms = at_ms
            self.record_count += len(messages)
            self._byte_count += sum(map(len, messages))
            self._byte_count += sum(len(message.key() or b"") for message in messages)
            if at_ms - report_ms >= interval_ms:
                yield ConsumptionRow(
                    report_ms,
                    at_ms,
                    self._byte_count - size,
                    self.record_count - counted,
                    self._interval_join_ms,
                    self._byte_count,
                    self.record_count,
                )
                self._interval_join_ms = 0
                report_ms, counted, size = at_ms, self.record_count, self._byte_count


def is_permanent(name: str) -> bool:
    """Whether no retry mends an error of librdkafka."""
    return name in PERMANENT or name.endswith("AUTHORIZATION_FAILED")
