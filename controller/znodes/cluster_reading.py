"""The active controller's reads of brokers, topics and partition states.

Every function sets the one-shot watches that fire at the next change.  A znode that cannot be
decoded is left out and passed to `warn`: one bad topic must not stop the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.coordination.session import CoordinationSession, SetData
from odradek.controller.image.image import BrokerImage, PartitionImage, PartitionState, TopicImage
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.broker_znode import decode_broker
from odradek.controller.znodes.fenced_writes import FencedWrites, read_all
from odradek.protocol.topic_partition import ZERO_UUID, TopicPartition
from odradek.runtime.work import pause

Warn = Callable[[str], None]

BYTES_OF_A_UNIT: Final = 512
"""Bytes of a topic's znode that are decoded in a unit: some 30 partitions."""


async def read_brokers(session: CoordinationSession, warn: Warn) -> dict[int, BrokerImage]:
    """The registered brokers; watches the list and each registration."""
    names = await session.children(zk_data.BROKER_IDS, watch=True)
    return await read_registrations(session, zk_data.broker_ids(names), warn)


async def read_registrations(
    session: CoordinationSession, ids: Sequence[int], warn: Warn
) -> dict[int, BrokerImage]:
    """The registrations of those brokers that have one; watches each of them."""
    brokers: dict[int, BrokerImage] = {}
    registrations = await read_all(
        session, [zk_data.broker_path(broker) for broker in ids], watch=True
    )
    for broker_id, registration in zip(ids, registrations, strict=True):
        if registration is None:
            continue
        data, stat = registration
        try:
            brokers[broker_id] = decode_broker(broker_id, stat.czxid, data)
        except zk_data.BadZnode as error:
            warn(f"registration of broker {broker_id}: {error}")
    return brokers


async def read_topics(
    fence: FencedWrites, names: Sequence[str], new_topic_id: Callable[[], UUID], warn: Warn
) -> list[TopicImage]:
    """Topics without states; watches each topic.  A topic without an id gets one, which is written.

    raises  ControllerMoved
    """
    topics: list[TopicImage] = []
    paths = [zk_data.topic_path(name) for name in names]
    for name, znode in zip(names, await read_all(fence.session, paths, watch=True), strict=True):
        if znode is None:
            continue
        data, stat = znode
        await pause(1 + len(data or b"") // BYTES_OF_A_UNIT)
        try:
            assignment = zk_data.TopicAssignmentZnode.decode(data)
        except zk_data.BadZnode as error:
            warn(f"topic {name}: {error}")
            continue
        if assignment.topic_id is None:
            assignment = assignment._replace(topic_id=new_topic_id())
            write = SetData(zk_data.topic_path(name), assignment.encode(), stat.version)
            (result,) = await fence.write_all([(write,)])
            if isinstance(result, CoordinationError):
                warn(f"topic {name} was changed while it got its id: {result}")
                continue
        topics.append(topic_image(name, assignment))
    return topics


def topic_image(name: str, assignment: zk_data.TopicAssignmentZnode) -> TopicImage:
    """The image of a topic, without states."""
    partitions = {
        index: PartitionImage(
            index,
            replicas,
            adding=assignment.adding.get(index, ()),
            removing=assignment.removing.get(index, ()),
        )
        for index, replicas in assignment.partitions.items()
    }
    topic_id = assignment.topic_id if assignment.topic_id is not None else ZERO_UUID
    return TopicImage(name, topic_id, partitions)


async def read_states(
    session: CoordinationSession,
    partitions: Sequence[TopicPartition],
    warn: Warn,
    written: dict[TopicPartition, int] | None = None,
) -> dict[TopicPartition, PartitionState]:
    """The states of those partitions that have one.

    written  gets the transactions that wrote them
    """
    states: dict[TopicPartition, PartitionState] = {}
    paths = [zk_data.partition_state_path(topic, index) for topic, index in partitions]
    for key, znode in zip(partitions, await read_all(session, paths), strict=True):
        if znode is None:
            continue
        await pause()
        data, stat = znode
        try:
            state = zk_data.PartitionStateZnode.decode(data)
        except zk_data.BadZnode as error:
            warn(f"state of {key[0]}-{key[1]}: {error}")
            continue
        if written is not None:
            written[key] = stat.mzxid
        states[key] = PartitionState(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            partition_epoch=stat.version,
            controller_epoch=state.controller_epoch,
            leader_recovery_state=state.leader_recovery_state,
        )
    return states


def encode_state(state: PartitionState) -> bytes:
    """The content of the state znode."""
    return zk_data.PartitionStateZnode(
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        leader_recovery_state=state.leader_recovery_state,
    ).encode()
