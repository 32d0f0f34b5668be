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
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from odradek.protocol.decode_error import DecodeError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.messages.list_offsets import LATEST_TIMESTAMP
from odradek.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from odradek.protocol.records.batch import iterate_batches
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools import options as command_line
from odradek.tools.client import TIMEOUT_MS, Client, ClientError
from odradek.tools.client_config import open_client
from odradek.tools.console.errors import log
from odradek.tools.errors import ToolError, check, partition_text, refused
from odradek.tools.options import INT64_MAX, Options, exclude, read_flags, require
from odradek.tools.partition_offsets import NO_OFFSET, list_offsets
from odradek.tools.run_command import run_command
from odradek.tools.topics.queries import compile_pattern

if TYPE_CHECKING:
    from odradek.tools.security.client_security import ClientSecurity

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
    partition_bytes = options.number_or("fetch-size", FETCH_BYTES)
    max_wait_ms = options.number_or("max-wait-ms", MAX_WAIT_MS)
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
    fetchers = [
        Fetcher(
            broker,
            led,
            topic_ids,
            client.security,
            partition_bytes=partition_bytes,
            max_wait_ms=max_wait_ms,
        )
        for broker in metadata.brokers
        if (led := [key for key, brokers in replicas.items() if broker.node_id in brokers])
    ]
    _say("verification process is started")
    with ExitStack() as stack:
        for fetcher in fetchers:
            stack.enter_context(fetcher.client)
        threads = stack.enter_context(ThreadPoolExecutor(max(1, len(fetchers))))
        return _compare_for_ever(threads, fetchers, offsets, interval_ms)


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
    threads: ThreadPoolExecutor,
    fetchers: Sequence[Fetcher],
    offsets: dict[TopicPartition, int],
    interval_ms: int,
) -> int:
    reported = time.monotonic()
    while True:
        high_watermarks: dict[TopicPartition, int] = {}
        for partition, replicas in fetch_all(threads, fetchers, offsets).items():
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


DEBUGGING_CONSUMER: Final = -2
"""Replica id of a consumer that followers serve, too."""
RESPONSE_BYTES_MAX: Final = 64 << 20
RETRY_PAUSE_MS: Final = 100


class Fetcher:
    """Reads the replicas of one broker."""

    def __init__(
        self,
        broker: MetadataResponseBroker,
        partitions: Sequence[TopicPartition],
        topic_ids: Mapping[str, UUID],
        security: ClientSecurity | None,
        *,
        partition_bytes: int,
        max_wait_ms: int,
    ) -> None:
        self.broker_id = broker.node_id
        host = f"[{broker.host}]" if ":" in broker.host else broker.host
        self.client = Client(
            f"{host}:{broker.port}", timeout_ms=TIMEOUT_MS + max_wait_ms, security=security
        )
        self._partitions = partitions
        self._topic_ids = topic_ids
        self._topics = {topic_id: topic for topic, topic_id in topic_ids.items()}
        self._partition_bytes = partition_bytes
        self._max_wait_ms = max_wait_ms

    def fetch(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, Fetched]:
        """One request; every partition is empty when the broker does not respond."""
        results = dict.fromkeys(self._partitions, Fetched())
        try:
            response = self.client.any_broker(self._request(offsets), FetchResponse)
        except ClientError:
            self.client.close()
            time.sleep(RETRY_PAUSE_MS / 1000)
            return results
        for topic in response.responses:
            name = topic.topic or self._topics.get(topic.topic_id, "")
            for row in topic.partitions:
                partition = TopicPartition(name, row.partition_index)
                if partition in results:
                    results[partition] = _read(row)
        return results

    def _request(self, offsets: Mapping[TopicPartition, int]) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        for partition in self._partitions:
            topics.setdefault(partition.topic, []).append(
                FetchPartition(
                    partition=partition.partition,
                    fetch_offset=offsets[partition],
                    log_start_offset=0,
                    partition_max_bytes=self._partition_bytes,
                )
            )
        return FetchRequest(
            replica_id=DEBUGGING_CONSUMER,
            replica_state=ReplicaState(replica_id=DEBUGGING_CONSUMER),
            max_wait_ms=self._max_wait_ms,
            min_bytes=1,
            max_bytes=RESPONSE_BYTES_MAX,
            topics=[
                FetchTopic(topic=name, topic_id=self._topic_ids[name], partitions=partitions)
                for name, partitions in topics.items()
            ],
        )


def _read(data: PartitionData) -> Fetched:
    """The whole batches of a response; a batch that cannot be read ends them."""
    if data.error_code or data.records is None:
        return Fetched()
    assert isinstance(data.records, memoryview), "the decoder does not copy records"
    batches: list[Batch] = []
    with suppress(DecodeError):
        batches.extend(
            Batch(batch.last_offset, batch.crc)
            for batch in iterate_batches(data.records, allow_partial=True)
        )
    return Fetched(data.high_watermark, batches)


def fetch_all(
    threads: ThreadPoolExecutor, fetchers: Sequence[Fetcher], offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, dict[int, Fetched]]:
    """Fetch each partition from each of its brokers, from these offsets on."""
    results: dict[TopicPartition, dict[int, Fetched]] = {}
    responses = threads.map(lambda fetcher: fetcher.fetch(offsets), fetchers)
    for fetcher, response in zip(fetchers, responses, strict=True):
        for partition, fetched in response.items():
            results.setdefault(partition, {})[fetcher.broker_id] = fetched
    return results


UNKNOWN: Final = -1


class Batch(NamedTuple):
    """A record batch of a replica."""

    last_offset: int
    checksum: int


class Fetched(NamedTuple):
    """The response of a replica; empty when it returned an error or did not respond."""

    high_watermark: int = UNKNOWN
    batches: Sequence[Batch] = ()


class Comparison(NamedTuple):
    """The result for one partition."""

    next_offset: int
    """The end of what all replicas have below their high watermarks."""
    mismatches: Sequence[str]
    is_fatal: bool
    """The last mismatch is one of offsets: nothing after it can be compared."""


def compare(partition: TopicPartition, offset: int, replicas: Mapping[int, Fetched]) -> Comparison:
    """Compare batches one after another until a replica has no more below its high watermark.

    offset    where all replicas were read from
    replicas  by broker
    """
    mismatches: list[str] = []
    name = partition_text(partition)
    order = sorted(replicas)
    for index in range(max((len(replica.batches) for replica in replicas.values()), default=0)):
        first: tuple[int, Batch] | None = None
        is_complete = True
        for broker in order:
            fetched = replicas[broker]
            if (
                index >= len(fetched.batches)
                or fetched.batches[index].last_offset >= fetched.high_watermark
            ):
                is_complete = False
                continue
            batch = fetched.batches[index]
            if first is None:
                first = broker, batch
                continue
            if batch.last_offset != first[1].last_offset:
                mismatches.append(
                    f"partition {name}: replica {first[0]}'s offset {first[1].last_offset} doesn't "
                    f"match replica {broker}'s offset {batch.last_offset}"
                )
                return Comparison(offset, mismatches, True)
            if batch.checksum != first[1].checksum:
                mismatches.append(
                    f"partition {name} has unmatched checksum at offset {batch.last_offset}; "
                    f"replica {first[0]}'s checksum {first[1].checksum}; replica {broker}'s "
                    f"checksum {batch.checksum}"
                )
        if not is_complete or first is None:
            break
        offset = first[1].last_offset + 1
    return Comparison(offset, mismatches, False)


class Lag(NamedTuple):
    """How far the verified offset of a partition is below the high watermark."""

    lag: int = UNKNOWN
    partition: TopicPartition | None = None
    offset: int = UNKNOWN

    def line(self, partitions: int) -> str:
        """The line of the report, without its time."""
        name = "null" if self.partition is None else partition_text(self.partition)
        return (
            f"max lag is {self.lag} for partition {name} at offset {self.offset} among "
            f"{partitions} partitions"
        )


def largest_lag(
    offsets: Mapping[TopicPartition, int], high_watermarks: Mapping[TopicPartition, int]
) -> Lag:
    """The largest lag of all partitions; of equal ones the first by name."""
    largest = Lag()
    for partition in sorted(offsets):
        lag = high_watermarks[partition] - offsets[partition]
        if lag > largest.lag:
            largest = Lag(lag, partition, offsets[partition])
    return largest
