"""Topics and partitions that appear, and leave.

Source: Kafka's KafkaController.processTopicChange, processPartitionModifications.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from odradek.controller.active.partition_states import PartitionStates
from odradek.controller.active.reassignments import Reassignments
from odradek.controller.active.topic_deletion import TopicDeletion
from odradek.controller.image.control_requests import ControlBatch
from odradek.controller.image.image import TopicImage
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.cluster_reading import read_topics
from odradek.protocol.topic_partition import TopicPartition


class TopicChanges:
    """Acts for the active controller when topics change; methods may raise ControllerMoved."""

    def __init__(
        self,
        states: PartitionStates,
        deletion: TopicDeletion,
        reassignments: Reassignments,
        new_topic_id: Callable[[], UUID],
    ) -> None:
        self._states = states
        self._deletion = deletion
        self._reassignments = reassignments
        self._new_topic_id = new_topic_id

    async def read(self) -> list[TopicImage]:
        """All topics without their states; watches the list and each topic."""
        names = await self._states.fence.session.children(zk_data.BROKER_TOPICS, watch=True)
        return await self._read(names)

    async def on_topics_changed(self) -> None:
        """Topics were created or removed."""
        states = self._states
        names = await states.fence.session.children(zk_data.BROKER_TOPICS, watch=True)
        present = dict.fromkeys(names)
        removed = [name for name in states.image.topics if name not in present]
        new = [name for name in names if name not in states.image.topics]
        for name in removed:
            states.deletions.forget(name)
        topics = await self._read(new)
        states.replace_topics(topics, removed)
        await self._start_partitions(
            [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]
        )

    async def on_topic_changed(self, name: str) -> None:
        """A topic got partitions, or was removed (then `on_topics_changed` is called, too)."""
        states = self._states
        old_topic = states.image.topics.get(name)
        if old_topic is None:
            return
        topics = await self._read([name])
        if not topics:
            return
        (topic,) = topics
        new = {
            index: partition
            for index, partition in topic.partitions.items()
            if index not in old_topic.partitions
        }
        if not new:
            return
        if name in states.deletions:
            await self._deletion.take_partitions_back(name)
            return
        states.replace_partitions(
            {TopicPartition(name, index): partition for index, partition in new.items()}
        )
        await self._start_partitions([TopicPartition(name, index) for index in sorted(new)])

    async def on_deletions_changed(self) -> None:
        """There are new pending deletions, perhaps of topics whose creation was not seen yet."""
        pending = await self._deletion.pending()
        if any(name not in self._states.image.topics for name in pending):
            await self.on_topics_changed()
        await self._deletion.enqueue(pending)
        await self._reassignments.on_deletions()
        await self._deletion.resume()

    async def _read(self, names: Sequence[str]) -> list[TopicImage]:
        states = self._states
        return await read_topics(states.fence, names, self._new_topic_id, states.warn)

    async def _start_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """First leaders for partitions that entered the image; states that exist are kept."""
        states = self._states
        batch = ControlBatch()
        partitions_with_state = await states.create_first(partitions, batch)
        await states.send(batch)
        if partitions_with_state:
            # The topic's znode was created by hand, over the state znodes of an earlier topic.
            await states.elect_leaderless()
