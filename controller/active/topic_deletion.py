"""Topic deletion: from the pending deletions in `/admin/delete_topics` to the removal of znodes.

`decide/deletion.py` decides the next step; this module does it.
Source: Kafka's TopicDeletionManager.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from odradek.controller.active.partition_states import PartitionStates
from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.coordination.session import SetData
from odradek.controller.decide.deletion import (
    DeleteReplicas,
    RemoveTopic,
    Replica,
    partition_of,
    replicas_of,
)
from odradek.controller.image.control_requests import ControlBatch, ControlResponse, StopReplica
from odradek.controller.znodes import zk_data
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.work import pause, shares

logger = logging.getLogger("odradek.controller")


class TopicDeletion:
    """Does what `Deletions` decides.  Every method may raise ControllerMoved."""

    def __init__(self, states: PartitionStates) -> None:
        self._states = states
        self._deletions = states.deletions
        self._fence = states.fence
        self._requests: dict[Replica, StopReplica] = {}
        """The latest request that deletes a replica, until there is a response.

        An earlier one proves nothing when the take-over was repeated: LeaderAndIsr, which is sent
        to all replicas then, makes the replica again.
        """

    async def pending(self) -> list[str]:
        """The pending deletions; new ones are watched for.

        Read them before the topics: then the topics of all of them are known that exist.
        """
        return await self._fence.session.children(zk_data.DELETE_TOPICS, watch=True)

    async def enqueue(self, pending: Sequence[str], *, is_take_over: bool = False) -> None:
        """Queue pending deletions.

        A pending deletion is removed when its topic is unknown, or delete.topic.enable is false.
        is_take_over  no step of any deletion counts as done
        """
        if is_take_over:
            self._deletions.clear()
            self._requests.clear()
        existing_topics = [name for name in pending if name in self._states.image.topics]
        refused = [name for name in pending if name not in self._states.image.topics]
        if self._states.settings.is_deletion_enabled:
            self._deletions.enqueue(existing_topics)
        else:
            refused = list(pending)
        await self._fence.remove(*(zk_data.delete_topic_path(name) for name in refused))

    async def resume(self) -> None:
        """Do every step that can be done now."""
        for effect in self._deletions.resume(self._states.image):
            match effect:
                case DeleteReplicas(topic, replicas):
                    await self._delete_replicas(topic, replicas)
                case RemoveTopic(topic):
                    await self._remove_topic(topic)

    async def on_stopped(
        self, broker_id: int, request: StopReplica, response: ControlResponse
    ) -> None:
        """A broker responded to a StopReplica, which may delete replicas."""
        topics: dict[str, None] = {}
        for share in shares(request.partitions):
            await pause(len(share))
            deleted: list[Replica] = []
            failed: list[Replica] = []
            for stopped in share:
                key = TopicPartition(stopped.topic, stopped.partition)
                replica = (*key, broker_id)
                if self._requests.get(replica) is request:
                    del self._requests[replica]
                    topics[key.topic] = None
                    error = response.error or response.partition_errors.get(key, ErrorCode.NONE)
                    (failed if error else deleted).append(replica)
            self._deletions.on_failed(failed)
            self._deletions.on_deleted(deleted)
        if any(topic in self._deletions for topic in topics):
            await self.resume()

    async def take_partitions_back(self, topic: str) -> None:
        """Remove partitions that were added to a topic that is being deleted from its znode."""
        topic_image = self._states.image.topics[topic]
        assignment = zk_data.TopicAssignmentZnode(
            topic_image.topic_id,
            {index: partition.replicas for index, partition in topic_image.partitions.items()},
            {
                index: partition.adding
                for index, partition in topic_image.partitions.items()
                if partition.adding
            },
            {
                index: partition.removing
                for index, partition in topic_image.partitions.items()
                if partition.removing
            },
        )
        (result,) = await self._fence.write_all(
            [(SetData(zk_data.topic_path(topic), assignment.encode()),)]
        )
        if isinstance(result, CoordinationError):
            self._states.warn(f"topic {topic}: {result!r}")

    async def _delete_replicas(self, topic: str, replicas: Sequence[Replica]) -> None:
        batch = ControlBatch()
        for share in shares(replicas_of(self._states.image, topic)):
            await pause(len(share))
            batch.add_metadata(map(partition_of, share))
        await self._states.send(batch)
        batch = ControlBatch()
        await self._states.take_offline(replicas, batch)
        for share in shares(replicas):
            await pause(len(share))
            for name, index, broker in share:
                batch.add_stop(broker, TopicPartition(name, index), is_deleted=True)
        for broker, request in await self._states.send(batch):
            if isinstance(request, StopReplica):
                for partition in request.partitions:
                    self._requests[partition.topic, partition.partition, broker] = request

    async def _remove_topic(self, topic: str) -> None:
        await self._fence.remove_tree(zk_data.topic_path(topic))
        await self._fence.remove(
            zk_data.config_path("topics", topic), zk_data.delete_topic_path(topic)
        )
        self._deletions.forget(topic)
        for replica in replicas_of(self._states.image, topic):
            self._requests.pop(replica, None)
        topic_image = self._states.image.topics.get(topic)
        if topic_image is not None:
            logger.info(
                "topic %s was deleted: id %s, %d partitions",
                topic,
                zk_data.encode_topic_id(topic_image.topic_id),
                len(topic_image.partitions),
            )
        self._states.replace_topics(removed=[topic])
