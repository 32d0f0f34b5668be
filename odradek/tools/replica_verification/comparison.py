"""Compares what the replicas of a partition have stored from one offset on.

Source: Kafka 3.9's ReplicaVerificationTool.ReplicaBuffer.verifyCheckSum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.errors import partition_text

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
