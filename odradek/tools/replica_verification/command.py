"""`odradek replica-verification`: the flags and lines of `kafka-replica-verification.sh` 3.9.

It reads all replicas until it is interrupted, and reports batches that differ and the largest
distance of a high watermark from what has been compared.
Exit codes: 1 for replicas with different offsets and other failures; 2 an invalid command line; 130
after Ctrl-C.
Differs from Kafka: brokers that cannot be reached at the start are reported at once; no stack trace
and no warning of its deprecation is printed; partitions without a record at or after --time begin
at their end.
Source: Kafka 3.9's ReplicaVerificationTool.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import LATEST_TIMESTAMP
from odradek.protocol.messages.metadata import MetadataResponse
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools import options as command_line
from odradek.tools.client import Client
from odradek.tools.client_config import open_client
from odradek.tools.console.errors import log
from odradek.tools.errors import ToolError, check, refused
from odradek.tools.options import INT64_MAX, Options, exclude, read_flags, require
from odradek.tools.partition_offsets import NO_OFFSET, list_offsets
from odradek.tools.replica_verification.comparison import compare, largest_lag
from odradek.tools.replica_verification.fetchers import Fetcher, Fetchers, RequestLimits
from odradek.tools.run_command import run_command
from odradek.tools.topics.queries import compile_pattern

WHAT_IT_DOES: Final = "Validate that all replicas for a set of topics have the same data."
FETCH_BYTES: Final = 1 << 20
MAX_WAIT_MS: Final = 1_000
REPORT_INTERVAL_MS: Final = 30_000
LOGGER: Final = "org.apache.kafka.tools.ReplicaVerificationTool"

FLAGS: Final = (
    command_line.COMMAND_CONFIG,
    *command_line.HELP_FLAGS,
    *read_flags("replica-verification"),
)


def parse_options(arguments: Sequence[str]) -> Options:
    options = command_line.parse(FLAGS, arguments, WHAT_IT_DOES)
    require(options, "broker-list")
    exclude(options, "topics-include", ("topic-white-list",))
    return options


def main(arguments: Sequence[str]) -> int:
    return run_command(arguments, FLAGS, parse_options, _act)


def _act(options: Options) -> int:
    with open_client(options.required("broker-list"), options.value("command-config")) as client:
        return verify(client, options)


def verify(client: Client, options: Options) -> int:
    """Compare the replicas of the topics that the options name, until offsets differ.

    raises  OptionsError, ToolError
    """
    reading = RequestLimits(
        options.number_or("fetch-size", FETCH_BYTES), options.number_or("max-wait-ms", MAX_WAIT_MS)
    )
    interval_ms = options.number_or("report-interval-ms", REPORT_INTERVAL_MS, INT64_MAX)
    since = options.number_or("time", LATEST_TIMESTAMP, INT64_MAX)
    metadata = client.metadata()
    replicas = _replicas(metadata, options)
    if not replicas:
        log(
            "ERROR",
            "No topics found. [topics-include] if specified, is either filtering out all topics or "
            "there is no topic.",
            LOGGER,
        )
        return 1
    offsets = _first_offsets(client, list(replicas), since)
    topic_ids = {topic.name: topic.topic_id for topic in metadata.topics if topic.name}
    fetchers = Fetchers(
        Fetcher(broker, led, topic_ids, reading, client.security)
        for broker in metadata.brokers
        if (
            led := [
                partition for partition, brokers in replicas.items() if broker.node_id in brokers
            ]
        )
    )
    _say("verification process is started")
    try:
        return _compare_for_ever(fetchers, offsets, interval_ms)
    finally:
        fetchers.close()


def _replicas(metadata: MetadataResponse, options: Options) -> dict[TopicPartition, list[int]]:
    given = options.value("topics-include")
    pattern = given if given is not None else options.value("topic-white-list") or ".*"
    try:
        expression = compile_pattern(pattern)
    except ToolError:
        raise ToolError(f"{pattern} is an invalid regex") from None
    brokers: dict[TopicPartition, list[int]] = {}
    for topic in metadata.topics:
        if topic.name is None or not expression.fullmatch(topic.name):
            continue
        check(topic)
        for partition in topic.partitions:
            brokers[TopicPartition(topic.name, partition.partition_index)] = partition.replica_nodes
    live = [broker.node_id for broker in metadata.brokers]
    missing = [
        replica for replicas in brokers.values() for replica in replicas if replica not in live
    ]
    if missing:
        raise refused(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker {missing[0]} is not alive.")
    return brokers


def _first_offsets(
    client: Client, partitions: Sequence[TopicPartition], since: int
) -> dict[TopicPartition, int]:
    offsets = list_offsets(client, partitions, since)
    late = [partition for partition, offset in offsets.items() if offset == NO_OFFSET]
    return offsets | list_offsets(client, late, LATEST_TIMESTAMP)


def _compare_for_ever(
    fetchers: Fetchers, offsets: dict[TopicPartition, int], interval_ms: int
) -> int:
    reported = time.monotonic()
    while True:
        high_watermarks: dict[TopicPartition, int] = {}
        for partition, replicas in fetchers.fetch(offsets).items():
            result = compare(partition, offsets[partition], replicas)
            offsets[partition] = result.next_offset
            high_watermarks[partition] = max(
                replica.high_watermark for replica in replicas.values()
            )
            for line in result.mismatches:
                _say(line)
            if result.is_fatal:
                return 1
        if (time.monotonic() - reported) * 1000 > interval_ms:
            reported = time.monotonic()
            _say(largest_lag(offsets, high_watermarks).line(len(offsets)))


def _say(text: str) -> None:
    now = datetime.datetime.now(tz=datetime.UTC).astimezone()
    print(f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03}: {text}", flush=True)
