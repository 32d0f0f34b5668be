"""`odradek verifiable-consumer`: the flags and events of `kafka-verifiable-consumer.sh` 3.9.

It prints an event for each assignment, each set of records and each commit.  Exit codes: 0 when
--max-messages were read, and after an error that no retry mends, which is reported on stderr, as in
Kafka's tool; 1 for an invalid property; 2 for an invalid command line; 130 and 143 after SIGINT and
SIGTERM.
Source: Kafka 3.9's VerifiableConsumer.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from odradek.tools.argument_parser import ArgumentParser, file_path, int32, run_parsed
from odradek.tools.arguments import add_arguments
from odradek.tools.console.errors import (
    ConsoleError,
    check_group,
    check_subscription,
    exception_of,
    log,
    run_uncaught,
)
from odradek.tools.console.properties import CONSUMER
from odradek.tools.console.stop import Stop, stopped_by_signals
from odradek.tools.library_client import PERMANENT, open_client, receive
from odradek.tools.verifiable.producer import add_servers, file_of_properties, print_event

RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"
LOGGER: Final = "org.apache.kafka.tools.VerifiableConsumer"


def build_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="verifiable-consumer",
        description="Read a topic, and print a JSON object for each event of the consumer.",
    )
    add_servers(parser)
    add_arguments(
        parser,
        "verifiable-consumer",
        {
            "--group-protocol": {"default": "classic"},
            "--max-messages": {"type": int32, "default": -1},
            "--session-timeout": {"type": int32, "default": 30_000},
            "--reset-policy": {"default": "earliest"},
            "--assignment-strategy": {"default": RANGE},
            "--consumer.config": file_path,
        },
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    parser = build_parser()

    def act(values: argparse.Namespace) -> int:
        properties = file_of_properties(parser, vars(values)["consumer.config"])
        properties.setdefault("client.id", "verifiable-consumer")
        extra: dict[str, Any] = {}
        if values.group_protocol.lower() == "consumer":
            properties["group.protocol"] = "consumer"
            if values.group_remote_assignor is not None:
                extra["group.remote.assignor"] = values.group_remote_assignor
        else:
            properties["partition.assignment.strategy"] = values.assignment_strategy
            properties["session.timeout.ms"] = str(values.session_timeout)
        if values.group_instance_id is not None:
            properties["group.instance.id"] = values.group_instance_id
        properties |= {
            "group.id": values.group_id,
            "bootstrap.servers": values.bootstrap_server,
            "enable.auto.commit": str(values.enable_autocommit).lower(),
            "auto.offset.reset": values.reset_policy,
        }
        if values.reset_policy == "none":
            extra["auto.offset.reset"] = "error"
        return run_uncaught(partial(_run, values, properties, extra))

    return run_parsed(parser, arguments, act)


def _run(values: argparse.Namespace, properties: dict[str, str], extra: dict[str, Any]) -> int:
    # Offsets of records that were not printed must not be committed.
    extra = {**extra, "enable.auto.offset.store": False}
    try:
        check_subscription(values.topic, None)
        check_group(values.group_id)
    except ConsoleError as error:
        print_event("startup_complete")
        _log_end(error)
        print_event("shutdown_complete")
        return 0
    consumer = open_client(CONSUMER, properties, extra)
    with stopped_by_signals() as stop:
        print_event("startup_complete")
        reader = VerifiableReader(consumer, values)
        try:
            reader.run(stop)
        except ConsoleError as error:
            _log_end(error)
        consumer.close()
        reader.revoke_rest()
        print_event("shutdown_complete")
    return stop.exit_code


def _log_end(error: ConsoleError) -> None:
    log("ERROR", f"Error during processing, terminating consumer process: {error}", LOGGER)


class VerifiableReader:
    """Reads records, commits their offsets and prints what happens."""

    def __init__(self, consumer: Any, values: argparse.Namespace) -> None:
        self._consumer = consumer
        self._values = values
        self._count = 0
        self._assigned: list[dict[str, Any]] = []

    def run(self, stop: Stop) -> None:
        """Read until --max-messages, or until a signal.

        raises  ConsoleError for an error that no retry mends
        """
        self._consumer.subscribe(
            [self._values.topic], on_assign=self._on_assign, on_revoke=self._on_revoke
        )
        limit = self._values.max_messages
        while not stop.exit_code and (limit < 0 or self._count < limit):
            messages = receive(self._consumer, PERMANENT.__contains__)
            if messages:
                self._take(messages)

    def _on_assign(self, _: Any, partitions: list[Any]) -> None:
        rows = [{"topic": row.topic, "partition": row.partition} for row in partitions]
        self._assigned += rows
        print_event("partitions_assigned", partitions=rows)

    def _on_revoke(self, _: Any, partitions: list[Any]) -> None:
        rows = [{"topic": row.topic, "partition": row.partition} for row in partitions]
        self._assigned = [row for row in self._assigned if row not in rows]
        print_event("partitions_revoked", partitions=rows)

    def revoke_rest(self) -> None:
        """Print what closing has revoked, if the library has not called back for it."""
        if self._assigned:
            print_event("partitions_revoked", partitions=self._assigned)
            self._assigned = []

    def _take(self, messages: list[Any]) -> None:
        """Print records up to --max-messages, and commit their offsets."""
        partitions: dict[tuple[str, int], list[Any]] = {}
        for message in messages:
            partitions.setdefault((message.topic(), message.partition()), []).append(message)
        summaries: list[dict[str, Any]] = []
        limit = self._values.max_messages
        for (topic, partition), records in partitions.items():
            taken = records if limit < 0 else records[: limit - self._count]
            if not taken:
                break
            if self._values.verbose:
                for record in taken:
                    _print_record(record)
            self._count += len(taken)
            summaries.append(
                {
                    "topic": topic,
                    "partition": partition,
                    "count": len(taken),
                    "minOffset": taken[0].offset(),
                    "maxOffset": taken[-1].offset(),
                }
            )
        print_event("records_consumed", count=len(messages), partitions=summaries)
        self._commit(summaries)

    def _commit(self, summaries: list[dict[str, Any]]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        rows = [
            {"topic": row["topic"], "partition": row["partition"], "offset": row["maxOffset"] + 1}
            for row in summaries
        ]
        offsets = [TopicPartition(row["topic"], row["partition"], row["offset"]) for row in rows]
        try:
            if self._values.enable_autocommit:
                self._consumer.store_offsets(offsets=offsets)
                return
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as exception:
            if self._values.enable_autocommit:
                # The partition was assigned to another member, which reads these records again.
                return
            _, text = exception_of(exception.args[0])
            print_event("offsets_committed", offsets=rows, error=text, success=False)
        else:
            print_event("offsets_committed", offsets=rows, success=True)


def _print_record(record: Any) -> None:
    key, value = record.key(), record.value()
    print_event(
        "record_data",
        key=None if key is None else key.decode(errors="replace"),
        value=None if value is None else value.decode(errors="replace"),
        topic=record.topic(),
        partition=record.partition(),
        offset=record.offset(),
    )
