"""What groups have committed lately, read of `__consumer_offsets`, and their lag at those times.

The lag at a commit is counted to the first record that was written after it.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from odradek.protocol.compiler import decoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.errors import KafkaError
from odradek.tools.lag.evaluation import Commit, window
from odradek.tools.partition_offsets import NO_OFFSET, offsets_at

OFFSETS_TOPIC: Final = "__consumer_offsets"
POLL_S: Final = 0.1
POLL_COUNT: Final = 10_000
_VERSION: Final = struct.Struct(">h")
OFFSET_KEYS: Final = (0, 1)
OFFSET_VALUES: Final = range(5)

GroupCommits = dict[str, dict[TopicPartition, list[tuple[int, int]]]]
"""(timestamp in ms, offset) by group and partition, in the order of the log."""


def committed_since(
    consumer: Any, since_ms: int, groups: Collection[str], timeout_s: float
) -> GroupCommits:
    """What groups have committed since a time.

    consumer  of librdkafka, with `enable.partition.eof`; it gets other assignments
    raises    KafkaError when nothing of the topic can be read for `timeout_s`
    """
    from confluent_kafka import KafkaError as LibraryError
    from confluent_kafka import TopicPartition as Place

    topic = consumer.list_topics(OFFSETS_TOPIC, timeout=timeout_s).topics[OFFSETS_TOPIC]
    commits: GroupCommits = {}
    places = [Place(OFFSETS_TOPIC, index, since_ms) for index in topic.partitions]
    if not places:
        return commits
    # A partition without a later record is at its end.
    consumer.assign(consumer.offsets_for_times(places, timeout=timeout_s))
    left = len(places)
    deadline_s = time.monotonic() + timeout_s
    while left:
        # It waits for so many messages, or for the whole time.
        messages = consumer.consume(POLL_COUNT, POLL_S)
        if messages:
            deadline_s = time.monotonic() + timeout_s
        elif time.monotonic() >= deadline_s:
            raise KafkaError(f"{OFFSETS_TOPIC} cannot be read within {timeout_s:g} s")
        for message in messages:
            error = message.error()
            if error is None:
                _add(commits, message.key(), message.value(), groups)
            elif error.code() == LibraryError._PARTITION_EOF:
                left -= 1
            else:
                raise KafkaError(f"{OFFSETS_TOPIC} cannot be read: {error.str()}")
    return commits


def _add(
    commits: GroupCommits, key: bytes | None, value: bytes | None, groups: Collection[str]
) -> None:
    """Note a record; those of members, deletions and unreadable ones are passed over."""
    if key is None or value is None or len(key) < _VERSION.size or len(value) < _VERSION.size:
        return
    (key_version,), (value_version,) = _VERSION.unpack_from(key), _VERSION.unpack_from(value)
    if key_version not in OFFSET_KEYS or value_version not in OFFSET_VALUES:
        return
    try:
        place, _ = decoder(OffsetCommitKey, key_version)(memoryview(key), _VERSION.size)
        if place.group not in groups:
            return
        commit, _ = decoder(OffsetCommitValue, value_version)(memoryview(value), _VERSION.size)
    except DecodeError:
        return
    partition = TopicPartition(place.topic, place.partition)
    rows = commits.setdefault(place.group, {}).setdefault(partition, [])
    rows.append((commit.commit_timestamp_ms, commit.offset))


def with_lags(
    client: Client, commits: GroupCommits, interval_ms: int, ends: Mapping[TopicPartition, int]
) -> dict[str, dict[TopicPartition, list[Commit]]]:
    """The window of each group's commits, with the lag at the time of each.

    ends    the end of each log now; partitions without one are left out
    raises  KafkaError, ClientError
    """
    windows = {
        (group, partition): window(rows, interval_ms)
        for group, partitions in commits.items()
        for partition, rows in partitions.items()
        if partition in ends
    }
    end_at = _ends_at(client, windows, ends)
    result: dict[str, dict[TopicPartition, list[Commit]]] = {}
    for (group, partition), rows in windows.items():
        result.setdefault(group, {})[partition] = [
            Commit(offset, at_ms, max(0, end_at(partition, at_ms) - offset))
            for at_ms, offset in rows
        ]
    return result


def _ends_at(
    client: Client,
    windows: Mapping[tuple[str, TopicPartition], list[tuple[int, int]]],
    ends: Mapping[TopicPartition, int],
) -> Callable[[TopicPartition, int], int]:
    """(partition, time) -> the offset of the first record after it, for the times of commits.

    As many requests as the longest list of distinct times, each for all partitions.
    """
    times: dict[TopicPartition, dict[int, int]] = {}
    for (_, partition), rows in windows.items():
        times.setdefault(partition, {}).update({at_ms: NO_OFFSET for at_ms, _ in rows})
    pending = {partition: list(by_time) for partition, by_time in times.items()}
    while pending:
        asked = {partition: rows.pop() for partition, rows in pending.items()}
        later = offsets_at(client, {partition: at + 1 for partition, at in asked.items()})
        for partition, at_ms in asked.items():
            times[partition][at_ms] = later[partition]
        pending = {partition: rows for partition, rows in pending.items() if rows}

    def end_at(partition: TopicPartition, at_ms: int) -> int:
        offset = times[partition][at_ms]
        return ends[partition] if offset == NO_OFFSET else offset

    return end_at
