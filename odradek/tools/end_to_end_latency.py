"""`odradek e2e-latency`: the arguments, lines and exit codes of `kafka-e2e-latency.sh` 3.9.

It sends a record, reads it and takes the time of both, again and again.  Exit codes: 0 done;
1 for a wrong argument or a record that is not read within a minute; 130 after Ctrl-C.
Source: Kafka 3.9's EndToEndLatency.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from odradek.tools.console.errors import ConsoleError, exception_of, print_exception
from odradek.tools.console.properties import CONSUMER, PRODUCER, for_library, load_properties
from odradek.tools.errors import ToolError
from odradek.tools.library_client import open_client
from odradek.tools.options import java_integer
from odradek.tools.run import run_tool
from odradek.tools.text_arguments import NotTextError, check_text

USAGE: Final = (
    "USAGE: java org.apache.kafka.tools.EndToEndLatency broker_list topic num_messages "
    "producer_acks message_size_bytes [optional] properties_file"
)
MEANINGS: Final = """
Send records one by one, and measure the time until each is read.

  broker_list         addresses of brokers: host:port,host:port
  topic               the topic; made with one partition if it is missing
  num_messages        how many records are sent
  producer_acks       1: the leader has the record; all: all replicas in sync have it
  message_size_bytes  bytes of a record
  properties_file     properties of producer and consumer"""
TEXTS: Final = ("broker_list", "topic", "num_messages", "producer_acks", "message_size_bytes")
"""The arguments but for the path."""
POLL_TIMEOUT_S: Final = 60.0
REPORT_EVERY: Final = 1000
SEED: Final = 0


class LatencyOptions(NamedTuple):
    servers: str
    topic: str
    record_count: int
    acks: str
    size_bytes: int
    properties: dict[str, str]


def main(arguments: Sequence[str]) -> int:
    if list(arguments) in (["--help"], ["-h"]):
        print(USAGE)
        print(MEANINGS)
        return 0
    if len(arguments) not in (5, 6):
        print(USAGE, file=sys.stderr)
        return 1

    def act(words: Sequence[str]) -> int:
        try:
            _measure(parse(words))
        except ConsoleError as error:
            print_exception(error)
            return 1
        return 0

    return run_tool(act, arguments)


def parse(words: Sequence[str]) -> LatencyOptions:
    """The arguments.

    raises  ConsoleError; ToolError for one that is not text
    """
    for name, word in zip(TEXTS, words, strict=False):
        try:
            check_text(word)
        except NotTextError as error:
            raise ToolError(f"{name}: {error}") from error
    servers, topic, count, acks, size = words[:5]
    numbers = []
    for text in (count, size):
        number = java_integer(text)
        if number is None or number < 0:
            raise ConsoleError("java.lang.NumberFormatException", f'For input string: "{text}"')
        numbers.append(number)
    if acks not in ("1", "all"):
        raise ConsoleError(
            "java.lang.IllegalArgumentException",
            "Latency testing requires synchronous acknowledgement. Please use 1 or all",
        )
    path = words[5].strip() if len(words) == 6 else ""
    properties = load_properties(path) if path else {}
    return LatencyOptions(servers, topic, numbers[0], acks, numbers[1], properties)


def _measure(options: LatencyOptions) -> None:
    common = {**options.properties, "bootstrap.servers": options.servers}
    common.setdefault("client.id", "e2e-latency")
    reading = {
        "group.id": f"test-group-{time.time_ns() // 1_000_000}",
        "enable.auto.commit": "false",
        "auto.offset.reset": "latest",
        "fetch.max.wait.ms": "0",
    }
    sending = {"linger.ms": "0", "acks": options.acks}
    consumer = open_client(CONSUMER, common | reading, {})
    try:
        producer = open_client(PRODUCER, common | sending, {"delivery.report.only.error": False})
        _prepare(options, consumer, for_library(PRODUCER, common))
        generator = random.Random(SEED)
        latencies_ns = []
        for number in range(options.record_count):
            letter = ord("A") + generator.randrange(26)
            message = bytes([letter]) * options.size_bytes
            latencies_ns.append(_round_trip(options.topic, message, producer, consumer))
            if number % REPORT_EVERY == 0:
                print(f"{number}\t{latencies_ns[-1] / 1e6}", flush=True)
        for line in report(latencies_ns):
            print(line)
    finally:
        consumer.close()


def _prepare(options: LatencyOptions, consumer: Any, configs: dict[str, Any]) -> None:
    """Create the topic if it is missing; read from its end."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = options.topic
    try:
        admin = AdminClient({**configs, "log_level": 0})
        if topic not in admin.list_topics(timeout=POLL_TIMEOUT_S).topics:
            print(
                f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and '
                "replication factor = 1",
                flush=True,
            )
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(POLL_TIMEOUT_S)
        partitions = admin.list_topics(topic, timeout=POLL_TIMEOUT_S).topics[topic].partitions
        ends = []
        for number in partitions:
            row = TopicPartition(topic, number)
            row.offset = consumer.get_watermark_offsets(row, timeout=POLL_TIMEOUT_S)[1]
            ends.append(row)
        consumer.assign(ends)
    except KafkaException as exception:
        raise _failed(exception.args[0]) from exception


def _failed(error: Any) -> ConsoleError:
    return ConsoleError(*exception_of(error))


def _round_trip(topic: str, message: bytes, producer: Any, consumer: Any) -> int:
    """Nanoseconds from sending a record to reading it.

    raises  ConsoleError when another record is read, or none
    """
    errors: list[Any] = []

    def delivered(error: Any, _: Any) -> None:
        errors.extend([] if error is None else [error])

    begin_ns = time.perf_counter_ns()
    producer.produce(topic, message, on_delivery=delivered)
    while producer.flush(POLL_TIMEOUT_S):
        pass
    if errors:
        raise _failed(errors[0])
    record = consumer.poll(POLL_TIMEOUT_S)
    elapsed_ns = time.perf_counter_ns() - begin_ns
    if record is None:
        timeout_ms = int(POLL_TIMEOUT_S * 1000)
        raise ConsoleError(
            "java.lang.RuntimeException",
            f"poll() timed out before finding a result (timeout:[{timeout_ms}])",
        )
    if record.error() is not None:
        raise _failed(record.error())
    if record.value() != message:
        read, sent = (record.value() or b"").decode(errors="replace"), message.decode()
        raise ConsoleError(
            "java.lang.RuntimeException",
            f"The message read [{read}] did not match the message sent [{sent}]",
        )
    return elapsed_ns


def report(latencies_ns: Sequence[int]) -> list[str]:
    """The last lines; without any record the average is NaN."""
    rows = sorted(latency // 1_000_000 for latency in latencies_ns) or [0]
    average = sum(latencies_ns) / len(latencies_ns) / 1e6 if latencies_ns else float("nan")
    median, high, highest = (rows[int(len(rows) * part)] for part in (0.5, 0.99, 0.999))
    return [
        f"Avg latency: {average:.4f} ms",
        f"Percentiles: 50th = {median}, 99th = {high}, 99.9th = {highest}",
    ]
