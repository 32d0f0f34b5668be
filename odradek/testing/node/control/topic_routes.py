"""Routes about topics: where they are, and work on their logs at once instead of when it is due."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from odradek.broker.compaction.failures import CleaningError
from odradek.broker.replication.partition import Partition
from odradek.testing.node.control.node import ControlledNode
from odradek.testing.node.control.routes import Arguments, Routes, conflict, not_found, until

COMPACTION_TIMEOUT_S: Final = 60.0


class TopicRoutes:
    """The topics of one broker."""

    def __init__(self, node: ControlledNode) -> None:
        self._node = node

    def add_to(self, routes: Routes) -> None:
        routes.add("GET", "/topics", "all topics, each as below", self.describe_all)
        routes.add("GET", "/topics/{topic}", "its partitions: leaders, replicas", self.describe)
        routes.add(
            "POST",
            "/topics/{topic}/roll",
            "begin a new segment in the logs of this broker",
            self.roll,
        )
        routes.add(
            "POST",
            "/topics/{topic}/compact",
            "roll and clean the logs of this broker now; ends when they are cleaned",
            self.compact,
        )
        routes.add(
            "POST",
            "/retention",
            "delete now what retention.ms and retention.bytes say, in the logs of this broker",
            self.retain,
        )

    def describe_all(self, arguments: Arguments) -> object:
        return {
            "topics": [
                self._describe(name) for name in sorted(self._node.parts.metadata.image.topics)
            ]
        }

    def describe(self, arguments: Arguments) -> object:
        return self._describe(arguments.text("topic"))

    def _describe(self, name: str) -> object:
        """raises  ControlError"""
        topic = self._node.parts.metadata.image.topics.get(name)
        if topic is None:
            raise not_found(f"there is no topic {name}")
        rows = []
        for index, partition in sorted(topic.partitions.items()):
            row: dict[str, object] = {"partition": index, "replicas": list(partition.replicas)}
            state = partition.state
            row["leader"] = -1 if state is None else state.leader
            row["leader_epoch"] = -1 if state is None else state.leader_epoch
            row["in_sync"] = [] if state is None else list(state.isr)
            held = self._node.parts.partitions.get(name, index)
            if held is not None:
                row["segments"] = len(held.log.segments)
                row["end_offset"] = held.log.end_offset
            rows.append(row)
        return {"topic": name, "partitions": rows}

    def roll(self, arguments: Arguments) -> object:
        rolled = 0
        for partition in self._held(arguments):
            rolled += self._roll(partition)
        return {"rolled": rolled}

    async def compact(self, arguments: Arguments) -> object:
        """Roll the segments, and run the cleaner without regard to the dirty ratio."""
        cleaned = {}
        for partition in self._held(arguments):
            self._roll(partition)
            try:
                result = await asyncio.wait_for(
                    self._node.compaction.run_now(partition.topic, partition.index),
                    COMPACTION_TIMEOUT_S,
                )
            except CleaningError as error:
                raise conflict(str(error)) from error
            if result is not None:
                cleaned[partition.index] = {
                    "read_records": result.read_records,
                    "kept_records": result.kept_records,
                }
        return {"cleaned": cleaned}

    async def retain(self, arguments: Arguments) -> object:
        """A whole round that begins now; the files are removed after file.delete.delay.ms."""
        retention = self._node.parts.retention
        await until(lambda: not retention.is_running, "the round under way ends")
        retention.run()
        await until(lambda: not retention.is_running, "the round ends")
        return {}

    def _roll(self, partition: Partition) -> bool:
        """Whether there was something to roll."""
        if not partition.log.segments.active.size:
            return False
        partition.log.roll(now_ms=self._node.platform.clock.now_ms())
        return True

    def _held(self, arguments: Arguments) -> Iterator[Partition]:
        """The replicas of the topic on this broker.

        raises  ControlError
        """
        name = arguments.text("topic")
        if name not in self._node.parts.metadata.image.topics:
            raise not_found(f"there is no topic {name}")
        for _, partition in sorted(self._node.parts.partitions.topic(name).items()):
            if not partition.log.is_offline:
                yield partition
