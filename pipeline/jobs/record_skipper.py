"""Lets a failed query start again without the records that Spark's reader cannot take.

1. A batch that has such a record in its middle is cut before the first one: it is planned, and not
   written, since the first reader of a batch fails.
2. When the next batch begins with such records, they are written to the dead letters of the source,
   and then the last committed batch ends after them.
3. A kill between these steps repeats a step: dead letters are written at least once.
Nothing else depends on the end of a batch that Spark has committed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException, Message

from odradek.pipeline.librdkafka import offset_of
from odradek.pipeline.offset_log import OffsetLog, OffsetRange, UnknownLog
from odradek.pipeline.sources.unreadable_records import (
    DeadLetterWriter,
    RecordsFailed,
    UnreadableReader,
)
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.producer_properties import client_properties
from odradek.pipeline.spec.sharing import shared_queries
from odradek.pipeline.spec.sources import KafkaSource

ISOLATION: Final = "kafka.isolation.level"
WRITTEN_MAX: Final = 100_000
"""How many records are remembered, so that several queries write one dead letter."""
Place = tuple[str, str, int, int]
"""Cluster, topic, partition and offset of a record."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """What has been changed.

    first     topic, partition and offset of an unreadable record
    rejected  number of records that are dead letters; 0: the batch ends before them
    topic     that of the dead letters
    """

    first: tuple[str, int, int]
    rejected: int
    topic: str


class RecordSkipper:
    """Changes the offset logs of queries that do not run.

    checkpoint  of the pipeline
    """

    def __init__(self, pipeline: PipelineSpec, checkpoint: Path) -> None:
        self._pipeline = pipeline
        self._checkpoint = checkpoint
        self._written: set[Place] = set()

    def skip_unreadable(self, query: str) -> Skipped | None:
        """Let a query that has ended start again without unreadable records.

        returns  None when it would fail again: a source has no topic for dead letters
        raises   RecordsFailed, OSError
        """
        log = OffsetLog(self._checkpoint / query)
        number = log.unfinished()
        if number is None:
            return None
        sources = self._sources(query)
        try:
            ranges = log.ranges(number)
            for source in sources:
                mine = [
                    batch_range
                    for batch_range in ranges
                    if _is_only_read_by(batch_range.topic, source, sources)
                ]
                skipped = self._change(log, number, source, mine)
                if skipped is not None:
                    return skipped
        except UnknownLog as error:
            raise RecordsFailed(str(error)) from error
        except KafkaException as error:
            raise RecordsFailed(error.args[0].str()) from error
        return None

    def _client(self, name: str) -> dict[str, str]:
        cluster = self._pipeline.clusters[name]
        return client_properties(cluster.bootstrap_servers, cluster.options)

    def _sources(self, query: str) -> list[KafkaSource]:
        """The Kafka sources of a query, and with a step in SQL all of them."""
        outputs = next(
            (shared.outputs for shared in shared_queries(self._pipeline) if shared.name == query),
            (query,),
        )
        steps = self._pipeline.dead_letter_steps()
        names = {
            name
            for output in outputs
            for name in self._pipeline.sources_of(steps.get(output, output))
        }
        return [
            source
            for name, source in self._pipeline.sources.items()
            if name in names and isinstance(source, KafkaSource)
        ]

    def _change(
        self, log: OffsetLog, number: int, source: KafkaSource, ranges: list[OffsetRange]
    ) -> Skipped | None:
        """Pass over the records of one source."""
        if source.rejects is None or source.rejects_cluster is None or not ranges:
            return None
        begins: dict[tuple[int, str, int], int] = {}
        ends: dict[tuple[int, str, int], int] = {}
        writer = DeadLetterWriter(self._client(source.rejects_cluster), source.rejects)
        letters = _DeadLetters(writer, source.cluster, self._written)
        isolation = str(source.options.get(ISOLATION, "read_uncommitted"))
        reader = UnreadableReader(self._client(source.cluster), isolation_level=isolation)
        try:
            for offsets in ranges:
                place = (offsets.source, offsets.topic, offsets.partition)
                # No batch before the first one, or with a new partition, could end later.
                is_first = number == 0 or offsets.begin is None
                readable = reader.readable(offsets, None if is_first else letters.take)
                if readable.begin is not None:
                    begins[place] = readable.begin
                if readable.end is not None:
                    ends[place] = readable.end
        finally:
            reader.close()
        letters.flush()
        # In this order: a batch may not end before it begins.
        if begins:
            log.set_ends(number - 1, begins)
        if ends:
            log.set_ends(number, ends)
        if letters.first is not None:
            return Skipped(letters.first, letters.count, source.rejects)
        for (_, topic, partition), end in ends.items():
            return Skipped((topic, partition, end), 0, source.rejects)
        return None


class _DeadLetters:
    """Writes each record once while it is in `written`, which several queries share."""

    def __init__(self, writer: DeadLetterWriter, cluster: str, written: set[Place]) -> None:
        self._writer = writer
        self._cluster = cluster
        self._written = written
        self._new: list[Place] = []
        self.count = 0
        self.first: tuple[str, int, int] | None = None

    def take(self, record: Message) -> None:
        """raises  RecordsFailed"""
        topic, partition, offset = record.topic(), record.partition(), offset_of(record)
        assert topic is not None, "a record that was read has a topic"
        assert partition is not None, "a record that was read has a partition"
        self.count += 1
        self.first = self.first or (topic, partition, offset)
        place = (self._cluster, topic, partition, offset)
        if place in self._written:
            return
        self._writer.write(record)
        if len(self._written) + len(self._new) < WRITTEN_MAX:
            self._new.append(place)

    def flush(self) -> None:
        """raises  RecordsFailed"""
        self._writer.flush()
        self._written.update(self._new)


def _is_only_read_by(topic: str, source: KafkaSource, sources: list[KafkaSource]) -> bool:
    """Whether all sources that read a topic have the cluster and the dead letters of `source`."""
    ways = {
        (reader.cluster, reader.rejects_cluster, reader.rejects)
        for reader in sources
        if _reads(reader, topic)
    }
    return ways == {(source.cluster, source.rejects_cluster, source.rejects)}


def _reads(source: KafkaSource, topic: str) -> bool:
    if source.pattern is None:
        return topic in source.topics
    try:
        return re.fullmatch(source.pattern, topic) is not None
    except re.error:
        # The syntax is that of Java.
        return True
