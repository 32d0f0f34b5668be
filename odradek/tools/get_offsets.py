"""`odradek get-offsets`: the flags, lines and exit codes of `kafka-get-offsets.sh` 3.9.

Exit codes: 0 success, also when the offsets of some partitions cannot be read (stderr names them);
1 failure; 2 an invalid command line.  The reason is on stderr.
Source: Kafka 3.9's GetOffsetShell, PartitionFilter and TopicPartitionFilter.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools import options as command_line
from odradek.tools.client import RETRY_PAUSE_MS, Client, ClientError, parse_bootstrap
from odradek.tools.client_config import open_client
from odradek.tools.errors import KafkaError, ToolError, partition_text, refused
from odradek.tools.options import (
    INT32_MAX,
    INT64_MAX,
    Options,
    OptionsError,
    VersionRequested,
    java_integer,
    read_flags,
)
from odradek.tools.partition_offsets import NO_OFFSET, list_offsets
from odradek.tools.run_command import run_command
from odradek.tools.topics.queries import compile_pattern

WHAT_IT_DOES: Final = "An interactive shell for getting topic-partition offsets."
NO_ADDRESS: Final = "Please provide valid host:port like host1:9091,host2:9092\n"
TIMES: Final[Mapping[str, int]] = {
    "latest": LATEST_TIMESTAMP,
    "earliest": EARLIEST_TIMESTAMP,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
}
_RULE: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|([0-9]*)-([0-9]*)))?", re.ASCII)

FLAGS: Final = (*command_line.CLIENT_FLAGS, *read_flags("get-offsets"))

Filter = Callable[[TopicPartition], bool]


def parse_options(arguments: Sequence[str]) -> Options:
    try:
        options = command_line.parse(FLAGS, arguments, WHAT_IT_DOES)
    except OptionsError as error:
        if error.shows_help or isinstance(error, VersionRequested):
            raise
        raise OptionsError(f"Error occurred: {error}") from error
    address = _address(options)
    if address is None:
        raise OptionsError("Error occurred: Missing required option(s) [bootstrap-server]")
    try:
        parse_bootstrap(address)
    except ClientError:
        raise OptionsError(NO_ADDRESS, shows_help=True) from None
    return options


def _address(options: Options) -> str | None:
    name = "bootstrap-server" if options.has("bootstrap-server") else "broker-list"
    return options.value(name)


def main(arguments: Sequence[str]) -> int:
    return run_command(arguments, FLAGS, parse_options, _act)


def _act(options: Options) -> int:
    try:
        if options.has("topic-partitions") and (options.has("topic") or options.has("partitions")):
            raise ToolError("--topic-partitions cannot be used with --topic or --partitions")
        timestamp_ms = parse_time(options.value("time") or "latest")
        allows = partition_filter(
            options.value("topic-partitions"), options.value("topic"), options.value("partitions")
        )
        address = _address(options) or ""
        with open_client(address, options.value("command-config")) as client:
            partitions = _partitions(
                client, allows, excludes_internal=options.has("exclude-internal-topics")
            )
            if not partitions:
                raise ToolError("Could not match any topic-partitions with the specified filters")
            _print_offsets(client, partitions, timestamp_ms)
    except OptionsError as error:
        raise OptionsError(f"Error occurred: {error}") from error
    except ToolError as error:
        raise ToolError(f"Error occurred: {error}") from error
    return 0


def parse_time(text: str) -> int:
    """A timestamp in ms, or one of the negative numbers that ListOffsets gives a meaning.

    raises  ToolError
    """
    if text in TIMES:
        return TIMES[text]
    time_ms = java_integer(text, INT64_MAX)
    if time_ms is None:
        raise ToolError(
            f"Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or "
            "max-timestamp / -4 or earliest-local / -5 or latest-tiered, or a specified long "
            "format timestamp"
        )
    return time_ms


def partition_filter(
    topic_partitions: str | None, topic: str | None, partitions: str | None
) -> Filter:
    """Which partitions the command line asks for.

    raises  ToolError
    """
    if topic_partitions is not None:
        # Java's split drops empty words at the end.
        rules = [_rule(text) for text in topic_partitions.rstrip(",").split(",")]
        return lambda partition: any(allows(partition) for allows in rules)
    pattern = compile_pattern(".*" if topic is None else topic)
    numbers = _numbers(partitions or "")
    return lambda partition: bool(
        pattern.fullmatch(partition.topic) and (not numbers or partition.partition in numbers)
    )


def _numbers(text: str) -> list[int]:
    words = text.rstrip(",").split(",") if text else []
    if any(java_integer(word) is None for word in words):
        raise ToolError(
            "--partitions expects a comma separated list of numeric partition ids, but received: "
            f"{text}"
        )
    return [int(word) for word in words]


def _rule(text: str) -> Filter:
    parts = _RULE.fullmatch(text)
    if parts is None:
        raise ToolError(f"Invalid rule specification: {text}")
    pattern = compile_pattern(parts[1] or ".*")
    if parts[2]:
        first, end = int(parts[2]), int(parts[2]) + 1
    else:
        first, end = int(parts[3] or 0), int(parts[4] or INT32_MAX)
    return lambda partition: bool(
        pattern.fullmatch(partition.topic) and first <= partition.partition < end
    )


def _partitions(client: Client, allows: Filter, *, excludes_internal: bool) -> list[TopicPartition]:
    """The partitions that are asked for, sorted by `topic-partition` as a text, as in Kafka."""
    partitions = [
        TopicPartition(topic.name, row.partition_index)
        for topic in client.metadata().topics
        if topic.name is not None and not (excludes_internal and topic.is_internal)
        for row in topic.partitions
    ]
    return sorted(filter(allows, partitions), key=partition_text)


def _print_offsets(client: Client, partitions: Sequence[TopicPartition], timestamp_ms: int) -> None:
    try:
        offsets = list_offsets(client, partitions, timestamp_ms)
    except KafkaError:
        # Each by itself; it has had its time to get a leader.
        client.set_timeout(RETRY_PAUSE_MS)
        offsets = dict(_offsets_one_by_one(client, partitions, timestamp_ms))
    for partition in partitions:
        offset = offsets.get(partition, NO_OFFSET)
        if offset != NO_OFFSET:
            print(f"{partition.topic}:{partition.partition}:{offset}")


def _offsets_one_by_one(
    client: Client, partitions: Sequence[TopicPartition], timestamp_ms: int
) -> Iterator[tuple[TopicPartition, int]]:
    for partition in partitions:
        try:
            yield from list_offsets(client, [partition], timestamp_ms).items()
        except KafkaError as error:
            text = refused(ErrorCode(error.code)) if error.code in list(ErrorCode) else error
            print(
                f"Skip getting offsets for topic-partition {partition_text(partition)} due to "
                f"error: {text}",
                file=sys.stderr,
            )
