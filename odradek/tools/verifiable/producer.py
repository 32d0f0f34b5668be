"""`odradek verifiable-producer`: the flags and events of `kafka-verifiable-producer.sh` 3.9.

It sends rising integers and prints an event for each acknowledgement and each failure, at the end
a summary.  Exit codes: 0 when all were sent; 1 for an invalid property; 2 for an invalid command
line; 130 and 143 after SIGINT and SIGTERM, when what was sent is delivered and summed up first.
Source: Kafka 3.9's VerifiableProducer.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any, Final

from odradek.tools.argument_parser import ArgumentParser, file_path, int32, int64, run_parsed
from odradek.tools.arguments import add_arguments
from odradek.tools.console.errors import ConsoleError, exception_of, run_uncaught
from odradek.tools.console.library import missing_topic_reason
from odradek.tools.console.properties import PRODUCER, load_properties
from odradek.tools.console.stop import Stop, stopped_by_signals
from odradek.tools.library_client import open_client

POLL_S: Final = 0.1
"""Bound on the delay between a signal and the end."""
MAX_BLOCK_MS: Final = 60_000
ACKS: Final = (0, 1, -1)


def build_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="verifiable-producer",
        description="Send rising integers, and print a JSON object for each acknowledgement.",
    )
    parser.add_argument("--topic", required=True, metavar="TOPIC", help="the topic to write to")
    add_servers(parser)
    number = {"type": int32, "default": -1}
    add_arguments(
        parser,
        "verifiable-producer",
        {
            "--max-messages": number,
            "--throughput": number,
            "--acks": number,
            "--producer.config": file_path,
            "--message-create-time": {"type": int64, "default": -1},
            "--value-prefix": int32,
            "--repeating-keys": int32,
        },
    )
    return parser


def add_servers(parser: ArgumentParser) -> None:
    """Add --bootstrap-server and its old name."""
    servers = parser.add_mutually_exclusive_group(required=True)
    same = {"dest": "bootstrap_server"}
    add_arguments(
        servers, "verifiable servers", {"--bootstrap-server": same, "--broker-list": same}
    )


def file_of_properties(parser: ArgumentParser, path: str | None) -> dict[str, str]:
    """The properties of a file; one that cannot be read is an error of the command line."""
    try:
        return {} if path is None else load_properties(path)
    except ConsoleError as error:
        parser.error(str(error).partition(": ")[2])


def main(arguments: Sequence[str]) -> int:
    parser = build_parser()

    def act(values: argparse.Namespace) -> int:
        if values.acks not in ACKS:
            parser.error(
                f"argument --acks: invalid choice: '{values.acks}' (choose from {{0,1,-1}})"
            )
        properties = {
            "client.id": "verifiable-producer",
            "bootstrap.servers": values.bootstrap_server,
            "acks": str(values.acks),
            "retries": "0",
            "linger.ms": "0",
        }
        properties.update(file_of_properties(parser, vars(values)["producer.config"]))
        return run_uncaught(partial(_run, values, properties))

    return run_parsed(parser, arguments, act)


def _run(values: argparse.Namespace, properties: dict[str, str]) -> int:
    producer = open_client(PRODUCER, properties, {"delivery.report.only.error": False})
    start_ms = now_ms()
    with stopped_by_signals() as stop:
        sender = IntegerSender(producer, values, start_ms)
        print_event("startup_complete")
        sender.run(stop)
        while producer.flush(POLL_S):
            pass
    print_event("shutdown_complete")
    elapsed_ms = max(now_ms() - start_ms, 1)
    print_event(
        "tool_data",
        sent=sender.sent,
        acked=sender.acked,
        target_throughput=values.throughput,
        avg_throughput=1000 * sender.acked / elapsed_ms,
    )
    return stop.exit_code


class IntegerSender:
    """Sends the integers and prints what becomes of them."""

    def __init__(self, producer: Any, values: argparse.Namespace, start_ms: int) -> None:
        self.sent = 0
        self.acked = 0
        self._producer = producer
        self._values = values
        self._start_ms = start_ms
        self._create_time_ms = values.message_create_time
        self._has_topic = False

    def run(self, stop: Stop) -> None:
        """Send until --max-messages, or until a signal."""
        limit = self._values.max_messages
        for number in count() if limit < 0 else range(limit):
            if stop.exit_code:
                return
            self._send(number)
            self._wait(number, stop)

    def _wait(self, number: int, stop: Stop) -> None:
        """Serve acknowledgements, until the next record is due."""
        self._producer.poll(0)
        throughput = self._values.throughput
        if throughput < 0:
            return
        due_ms = self._start_ms + 1000 * number / throughput if throughput else float("inf")
        while now_ms() < due_ms and not stop.exit_code:
            self._producer.poll(min(POLL_S, (due_ms - now_ms()) / 1000 + 0.001))

    def _send(self, number: int) -> None:
        values, topic = self._values, self._values.topic
        prefix = "" if values.value_prefix is None else f"{values.value_prefix}."
        value = f"{prefix}{number}"
        key = None if values.repeating_keys is None else str(number % max(values.repeating_keys, 1))
        extra: dict[str, int] = {}
        if self._create_time_ms != -1:
            extra["timestamp"] = self._create_time_ms
            self._create_time_ms += now_ms() - self._start_ms
        self.sent += 1
        if not self._has_topic:
            reason = missing_topic_reason(self._producer, topic, MAX_BLOCK_MS)
            if reason is not None:
                self._failed(key, value, *reason.split(": ", 1))
                return
            self._has_topic = True
        delivered = partial(self._delivered, key, value)
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=delivered, **extra)
            except BufferError:
                self._producer.poll(POLL_S)
            else:
                return

    def _delivered(self, key: str | None, value: str, error: Any, message: Any) -> None:
        if error is not None:
            self._failed(key, value, *exception_of(error))
            return
        self.acked += 1
        print_event(
            "producer_send_success",
            key=key,
            value=value,
            offset=message.offset(),
            partition=message.partition(),
            topic=message.topic(),
        )

    def _failed(self, key: str | None, value: str, kind: str, text: str) -> None:
        print_event(
            "producer_send_error",
            topic=self._values.topic,
            key=key,
            value=value,
            exception=f"class {kind}",
            message=text,
        )


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def print_event(name: str, **fields: Any) -> None:
    """Print an event on stdout at once: a JSON object in the order of Kafka's fields."""
    event = {"timestamp": now_ms(), "name": name, **fields}
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    print(text, file=sys.stdout, flush=True)
