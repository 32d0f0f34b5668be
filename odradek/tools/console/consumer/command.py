"""`odradek console-consumer`: the flags, lines and exit codes of `kafka-console-consumer.sh` 3.9.

Exit codes: 0 when --max-messages or --timeout-ms is reached, or the reader of stdout has closed it;
1 for an invalid property, or a record that cannot be printed; 2 for an invalid command line; 130
and 143 after SIGINT and SIGTERM.  The number of records is printed on stderr at every end.
Source: Kafka 3.9's ConsoleConsumer.
"""

from __future__ import annotations

import os
import random
import re
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from odradek.tools import options as command_line
from odradek.tools.console.consumer.formatters import (
    DEFAULT_FORMATTER,
    Formatter,
    UnknownFormatterError,
    find_formatter,
)
from odradek.tools.console.consumer.subscription import Subscription
from odradek.tools.console.errors import (
    TIMEOUT_EXCEPTION,
    AuthenticationError,
    ConsoleError,
    check_group,
    check_subscription,
    exception_of,
    log,
)
from odradek.tools.console.library import LibraryMissingError, build
from odradek.tools.console.properties import (
    CONSUMER,
    check_properties,
    for_library,
    load_properties,
    parse_pairs,
    unknown_properties,
)
from odradek.tools.console.stop import Stop, stopped_by_signals
from odradek.tools.java_patterns import compile_java_pattern
from odradek.tools.options import INT64_MAX, Options, OptionsError, read_flags, refuse

WHAT_IT_DOES: Final = (
    "This tool helps to read data from Kafka topics and outputs it to standard output."
)
EARLIEST: Final = -2
LATEST: Final = -1
_OFFSET: Final = re.compile(r"\+?\d+")

FLAGS: Final = (
    command_line.BOOTSTRAP_SERVER,
    *command_line.HELP_FLAGS,
    *read_flags("console-consumer"),
)


def parse_options(arguments: Sequence[str]) -> Options:
    """Parse the command line; `check_values` checks the values.

    raises  OptionsError; HelpRequested for --help
    """
    return command_line.parse(FLAGS, arguments, WHAT_IT_DOES, wrong_shows_help=True)


def check_values(options: Options) -> None:
    """Check that the options are consistent.

    raises  OptionsError; ConsoleError for a value that is given twice or is not a number
    """
    try:
        _check_source(options)
        idle_ms(options)
    except OptionsError as error:
        if error.shows_help:
            raise
        raise option_error(error) from error


def option_error(error: OptionsError) -> ConsoleError:
    """The exception of joptsimple with which Kafka's tool ends for an invalid value."""
    is_repeated = str(error).startswith("Found multiple")
    kind = (
        "MultipleArgumentsForOptionException"
        if is_repeated
        else "OptionArgumentConversionException"
    )
    return ConsoleError(f"joptsimple.{kind}", str(error), exit_code=error.exit_code)


def _check_source(options: Options) -> None:
    topics = [text for text in (options.value("topic"), included(options)) if text is not None]
    if len(topics) != 1:
        deprecated = (
            "--whitelist is DEPRECATED use --include instead; ignored if --include specified."
            if options.has("whitelist")
            else ""
        )
        raise OptionsError(
            f"Exactly one of --include/--topic is required. {deprecated}", shows_help=True
        )
    if options.number("partition") is not None:
        if not options.has("topic"):
            raise OptionsError(
                "The topic is required when partition is specified.", shows_help=True
            )
        if options.has("from-beginning") and options.has("offset"):
            raise OptionsError(
                "Options from-beginning and offset cannot be specified together.", shows_help=True
            )
    elif options.has("offset"):
        raise OptionsError("The partition is required when offset is specified.", shows_help=True)
    command_line.require(options, "bootstrap-server")


def included(options: Options) -> str | None:
    """The regular expression of --include, or else of --whitelist.

    raises  OptionsError when the option is given twice
    """
    pattern = options.value("include")
    return pattern if pattern is not None else options.value("whitelist")


def consumer_properties(options: Options, new_group: str) -> dict[str, str]:
    """Kafka's consumer properties, by precedence: flags, --consumer-property, --consumer.config.

    new_group  the group id when none is given; offsets are not committed then
    raises     OptionsError for conflicting options, ConsoleError for an unreadable file
    """
    path = options.value("consumer.config") or options.value("command-config")
    from_file = load_properties(path) if path is not None else {}
    extra = parse_pairs(options.values("consumer-property"))
    group = _group_of(options, from_file, extra)
    properties = {**from_file, **extra}
    reset = properties.get("auto.offset.reset")
    if reset is None:
        properties["auto.offset.reset"] = "earliest" if options.has("from-beginning") else "latest"
    elif options.has("from-beginning") and reset != "earliest":
        raise OptionsError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', "
            "please remove one option"
        )
    properties["bootstrap.servers"] = options.value("bootstrap-server") or ""
    properties.setdefault("client.id", "console-consumer")
    level = options.value("isolation-level")
    if level is not None:
        properties["isolation.level"] = level
    properties.setdefault("isolation.level", "read_uncommitted")
    if group is None:
        properties.setdefault("enable.auto.commit", "false")
    properties["group.id"] = new_group if group is None else group
    return properties


def _group_of(options: Options, from_file: dict[str, str], extra: dict[str, str]) -> str | None:
    given = (options.value("group"), from_file.get("group.id"), extra.get("group.id"))
    groups = sorted({group for group in given if group is not None})
    if len(groups) > 1:
        raise OptionsError(
            "The group ids provided in different places (directly using '--group', via "
            "'--consumer-property', or via '--consumer.config') do not match. Detected group ids: "
            + ", ".join(f"'{group}'" for group in groups),
            shows_help=True,
        )
    if groups and options.has("partition"):
        raise OptionsError(
            "Options group and partition cannot be specified together.", shows_help=True
        )
    return groups[0] if groups else None


def first_offset(options: Options) -> int:
    """The first offset to read, EARLIEST or LATEST.

    raises  OptionsError
    """
    text = options.value("offset")
    if text is None:
        return EARLIEST if options.has("from-beginning") else LATEST
    if text.lower() in ("earliest", "latest"):
        return EARLIEST if text.lower() == "earliest" else LATEST
    offset = int(text) if _OFFSET.fullmatch(text) else INT64_MAX + 1
    if offset > INT64_MAX:
        raise OptionsError(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', "
            "'latest', or a non-negative long.",
            shows_help=True,
        )
    return offset


def idle_ms(options: Options) -> int | None:
    """The longest wait for a record; None: no limit.

    raises  OptionsError
    """
    timeout_ms = options.number("timeout-ms", INT64_MAX)
    return None if timeout_ms is None or timeout_ms < 0 else timeout_ms


def formatter_properties(options: Options) -> dict[str, str]:
    """The properties of the formatter: --property before --formatter-config.

    raises  OptionsError, ConsoleError
    """
    path = options.value("formatter-config")
    properties = load_properties(path) if path is not None else {}
    for flag, name in (
        ("key-deserializer", "key.deserializer"),
        ("value-deserializer", "value.deserializer"),
    ):
        given = options.value(flag)
        if given:
            properties[name] = given
    properties.update(parse_pairs(options.values("property")))
    return properties


POLL_S: Final = 0.1
"""Bound on the delay between a signal and the end."""
RECORDS_AT_ONCE: Final = 2000
"""Bound on the records that are formatted before they are written."""
LOGGER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def main(arguments: Sequence[str]) -> int:
    try:
        options = parse_options(arguments)
        check_values(options)
        # As in Kafka's tool; group ids of consumers that run at once should differ.
        properties = consumer_properties(options, f"console-consumer-{random.randrange(100_000)}")
        first_offset(options)
        name = options.value("formatter") or DEFAULT_FORMATTER
        formatter = find_formatter(name, formatter_properties(options))
    except UnknownFormatterError as error:
        return refuse(OptionsError(str(error), shows_help=True), FLAGS)
    except OptionsError as error:
        return refuse(error, FLAGS)
    except ConsoleError as error:
        # Kafka's tool does not catch this exception.
        print(f'Exception in thread "main" {error}', file=sys.stderr)
        return error.exit_code
    try:
        return _run(options, properties, formatter)
    except LibraryMissingError as error:
        print(error, file=sys.stderr)
    except ConsoleError as error:
        _print_error(f"Unknown error when running consumer: \n{error}")
    return 1


def _print_error(text: str) -> None:
    headline, _, rest = text.partition("\n")
    log("ERROR", headline, LOGGER)
    print(rest, file=sys.stderr, flush=True)


def _limit(options: Options) -> int:
    """The value of --max-messages; -1: no limit."""
    try:
        maximum = options.number("max-messages")
    except OptionsError as error:
        raise option_error(error) from error
    return -1 if maximum is None else maximum


def _run(options: Options, properties: dict[str, str], formatter: Formatter) -> int:
    check_properties(CONSUMER, properties)
    pattern = included(options)
    check_subscription(options.value("topic"), pattern)
    try:
        compiled = None if pattern is None else compile_java_pattern(pattern)
    except re.error as error:
        raise ConsoleError("java.util.regex.PatternSyntaxException", str(error)) from error
    try:
        check_group(properties["group.id"])
    except ConsoleError as error:
        _print_error(f"Error processing message, terminating consumer process: \n{error}")
        print("Processed a total of 0 messages", file=sys.stderr)
        return 0
    configs = for_library(CONSUMER, properties)
    commits = properties.get("enable.auto.commit", "true").strip().lower() == "true"
    # Offsets are stored after the records have been written to stdout.
    configs["enable.auto.offset.store"] = False
    for name in unknown_properties(CONSUMER, properties):
        log("WARN", f"The configuration '{name}' is unknown and has no effect", CONSUMER)
    consumer = build(CONSUMER, configs)
    printer = RecordPrinter(consumer, formatter, options, commits=commits)
    with stopped_by_signals() as stop:
        try:
            subscription = Subscription(
                consumer,
                topic=options.value("topic"),
                pattern=compiled,
                partition=options.number("partition"),
                offset=first_offset(options),
                refresh_s=int(properties.get("metadata.max.age.ms", "300000")) / 1000,
                excludes_internal=properties.get("exclude.internal.topics", "true") != "false",
            )
            printer.run(subscription, idle_ms(options), stop)
        finally:
            consumer.close()
            print(f"Processed a total of {printer.count} messages", file=sys.stderr, flush=True)
            if options.has("enable-systest-events"):
                printer.write([b"shutdown_complete\n"])
    return stop.exit_code or printer.exit_code


class RecordPrinter:
    """Polls records and writes them to stdout until an end condition."""

    def __init__(
        self, consumer: Any, formatter: Formatter, options: Options, *, commits: bool
    ) -> None:
        """commits  store the offsets of written records for the next commit"""
        self.count = 0
        self.exit_code = 0
        self._consumer = consumer
        self._format = formatter
        self._options = options
        self._commits = commits

    def run(self, subscription: Subscription, timeout_ms: int | None, stop: Stop) -> None:
        """Print records until a limit, a signal or an error.

        raises  ConsoleError for a record that cannot be printed
        """
        limit = _limit(self._options)
        idle_since = time.monotonic()
        while not stop.exit_code and (limit == -1 or self.count < limit):
            try:
                subscription.refresh()
                count_max = RECORDS_AT_ONCE if limit == -1 else limit - self.count
                records = self._receive(min(count_max, RECORDS_AT_ONCE), timeout_ms)
            except ConsoleError as error:
                _print_error(f"Error processing message, terminating consumer process: \n{error}")
                if isinstance(error, AuthenticationError):
                    # Differs from Kafka: it exits with 0.
                    self.exit_code = 1
                return
            if records:
                if not self._print(records):
                    return
                idle_since = time.monotonic()
            elif timeout_ms is not None and (time.monotonic() - idle_since) * 1000 > timeout_ms:
                headline = "Error processing message, terminating consumer process: "
                _print_error(f"{headline}\n{TIMEOUT_EXCEPTION}")
                return

    def _receive(self, count_max: int, timeout_ms: int | None) -> list[Any]:
        """The records that have been fetched; waits up to POLL_S for the first."""
        wait_s = POLL_S if timeout_ms is None else min(POLL_S, timeout_ms / 1000)
        first = self._consumer.poll(wait_s)
        if first is None:
            return []
        messages = [first]
        if count_max > 1:
            messages += self._consumer.consume(count_max - 1, 0)
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            else:
                self._check(message, error)
        return records

    def _check(self, message: Any, error: Any) -> None:
        """Log a transient error of the library; raise ConsoleError for any other."""
        name = error.name()
        if name == "TOPIC_EXCEPTION":
            kind = "org.apache.kafka.common.errors.InvalidTopicException"
            raise ConsoleError(kind, f"Invalid topics: [{message.topic()}]")
        if error.fatal() or name == "_AUTO_OFFSET_RESET" or name.endswith("AUTHORIZATION_FAILED"):
            raise ConsoleError(*exception_of(error))
        log("WARN", error.str(), "librdkafka")

    def _print(self, records: list[Any]) -> bool:
        """Format and write records; returns whether stdout is still read."""
        output: list[bytes] = []
        form = self._format
        try:
            for record in records:
                self.count += 1
                try:
                    form(record, output)
                except ConsoleError as error:
                    if not self._options.has("skip-message-on-error"):
                        raise
                    _print_error(f"Error processing message, skipping this message: \n{error}")
        finally:
            is_read = self.write(output)
        if not is_read:
            print("Unable to write to standard out, closing consumer.", file=sys.stderr)
        elif self._commits:
            self._store(records)
        return is_read

    def write(self, output: list[bytes]) -> bool:
        """Write bytes to stdout; returns whether stdout is still read."""
        data = memoryview(b"".join(output))
        try:
            while data:
                data = data[os.write(1, data) :]
        except OSError:
            return False
        return True

    def _store(self, records: list[Any]) -> None:
        """Store the offsets after `records` for the next commit."""
        from confluent_kafka import KafkaException, TopicPartition

        last = {(record.topic(), record.partition()): record.offset() for record in records}
        try:
            self._consumer.store_offsets(
                offsets=[
                    TopicPartition(topic, partition, offset + 1)
                    for (topic, partition), offset in last.items()
                ]
            )
        except KafkaException:
            # The partition has been assigned to another member, which reads these records again.
            return
