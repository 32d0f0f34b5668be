"""The active controller: cluster events -> decisions -> znodes written -> control requests sent.

`Controller` makes one when this broker wins the election, and drops it when another broker was
elected.  An event carries no data: its method reads the znodes again and compares them with the
image, so that a missed, repeated or late event is harmless.

    partition_states   the image, and every write to a state znode
    broker_changes     brokers that come, change, leave, shut down, lose log directories
    topic_changes      topics and partitions that appear and leave
    topic_deletion     deletions, as decide/deletion orders them
    reassignments      replicas that move between brokers
    leader_elections   elections that clients, old tools and the clock ask for
    isr_changes        in-sync replicas that leaders alter
    topic_admin        requests of clients to create, grow and delete topics; on any broker

Source: Kafka's KafkaController, PartitionStateMachine, ReplicaStateMachine.
"""

# `async def` here is not asyncio and needs no event loop.  The methods are procedures: `Controller`
# runs them one at a time, in order, on a `SerialQueue`, and they await nothing
# but `runtime.pending.Pending`.  With an embedded session most run to their end within the call.

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from odradek.controller.active.broker_changes import BrokerChanges
from odradek.controller.active.feature_updates import FeatureUpdates
from odradek.controller.active.isr_changes import IsrChanges
from odradek.controller.active.leader_elections import LeaderElections
from odradek.controller.active.partition_states import ControllerSettings, PartitionStates
from odradek.controller.active.reassignments import Reassignments
from odradek.controller.active.topic_changes import TopicChanges
from odradek.controller.active.topic_deletion import TopicDeletion
from odradek.controller.coordination.session import CoordinationSession
from odradek.controller.image.control_requests import (
    ControlBatch,
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    StopReplica,
)
from odradek.controller.image.image import Image
from odradek.controller.requests.control_channel import ControlChannel
from odradek.controller.znodes import admin_znodes, zk_data
from odradek.controller.znodes.cluster_reading import Warn, read_brokers, read_states
from odradek.controller.znodes.fenced_writes import FencedWrites
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.work import pause, shares


class ActiveController:
    """The controller of one controller epoch."""

    def __init__(  # noqa: PLR0913 - what it writes, whom it sends to, and its settings
        self,
        session: CoordinationSession,
        image: Image,
        *,
        epoch_version: int,
        settings: ControllerSettings,
        channel: ControlChannel,
        new_topic_id: Callable[[], UUID],
        warn: Warn,
        dynamic_setting: Callable[[str], str | None] = lambda name: None,
        min_isr_of: Callable[[str], int] = lambda topic: 1,
    ) -> None:
        """image            only the cluster id, controller id and controller epoch of it are used
        dynamic_setting  (name) -> what is stored for this broker, or for all brokers, or None
        min_isr_of       min.insync.replicas of a topic, for the log
        """
        self.is_loaded = False
        """Whether everything was read once: before, the image is of an empty cluster."""
        self._session = session
        self._warn = warn
        self._fence = FencedWrites(session, epoch_version)
        empty = Image(
            cluster_id=image.cluster_id,
            controller_id=image.controller_id,
            controller_epoch=image.controller_epoch,
        )
        self._states = states = PartitionStates(
            self._fence,
            empty,
            settings,
            channel=channel,
            warn=warn,
            dynamic_setting=dynamic_setting,
            min_isr_of=min_isr_of,
        )
        self.changes = states.changes
        self._deletion = TopicDeletion(states)
        self.reassignments = Reassignments(states)
        self.elections = LeaderElections(states)
        self.features = FeatureUpdates(self._fence, warn)
        self.isr_changes = IsrChanges(states, self.reassignments)
        self.brokers = BrokerChanges(states, self._deletion, self.reassignments)
        self._topics = TopicChanges(states, self._deletion, self.reassignments, new_topic_id)

    @property
    def image(self) -> Image:
        """The cluster as this controller has read and written it."""
        return self._states.image

    async def load(self) -> None:
        """Take over: read all znodes, send them to all brokers, elect leaders where there are none,
        go on with reassignments, deletions and elections.

        May be repeated after it failed half-way.
        raises  ControllerMoved and other CoordinationErrors
        """
        states = self._states
        await self.features.set_up()
        for folder in (zk_data.LOG_DIRECTORY_EVENTS, zk_data.ISR_CHANGES):
            names = await self._session.children(folder, watch=True)
            await self._fence.remove(*(f"{folder}/{name}" for name in names))
        brokers = await read_brokers(self._session, self._warn)
        # What is known of a broker ends with its registration.
        gone = [
            broker_id
            for broker_id, broker in self.image.brokers.items()
            if broker_id not in brokers or brokers[broker_id].broker_epoch != broker.broker_epoch
        ]
        image = self.image.with_brokers(removed=gone)
        pending = await self._deletion.pending()
        topics = await self._topics.read()
        image = image._replace(brokers=brokers, topics={}, topic_names={}).with_topics(topics)
        everything = [
            TopicPartition(topic, partition.partition) for topic, partition in image.partitions()
        ]
        written: dict[TopicPartition, int] = {}
        stored_states = await read_states(self._session, everything, self._warn, written)
        for share in shares(list(stored_states)):
            await pause(len(share))
            image = image.with_states({key: stored_states[key] for key in share})
        states.load(image)
        self.is_loaded = True
        await states.take_bounced_offline(written)
        await self._deletion.enqueue(pending, is_take_over=True)
        batch = ControlBatch()
        batch.add_all_metadata(states.image, brokers)
        await states.send(batch)
        await self.brokers.start_replicas(everything)
        await states.elect_leaderless()
        await self.reassignments.load()
        await self._deletion.resume()
        await self.elections.on_requests_changed()

    async def log_changes(self, now_ms: int) -> None:
        """Log what became of partitions; due after each procedure, and a second later."""
        await self.changes.write(self.image, self._states.deletions, now_ms)

    async def log_take_over(self, now_ms: int) -> None:
        """`load` has ended."""
        await self.log_changes(now_ms)
        self.changes.write_summary(self.image)

    async def on_znode_changed(self, path: str) -> None:
        """A watch of this controller fired."""
        match path:
            case zk_data.BROKER_IDS:
                await self.brokers.on_brokers_changed()
            case zk_data.BROKER_TOPICS:
                await self._topics.on_topics_changed()
            case zk_data.DELETE_TOPICS:
                await self._topics.on_deletions_changed()
            case zk_data.LOG_DIRECTORY_EVENTS:
                await self.brokers.on_log_directory_events()
            case zk_data.ISR_CHANGES:
                await self.isr_changes.on_notifications()
            case admin_znodes.REASSIGN_PARTITIONS:
                await self.reassignments.on_requests_changed()
            case admin_znodes.PREFERRED_REPLICA_ELECTION:
                await self.elections.on_requests_changed()
            case _ if path.startswith(zk_data.BROKER_IDS + "/"):
                await self.brokers.on_broker_changed(int(path[len(zk_data.BROKER_IDS) + 1 :]))
            case _ if path.startswith(zk_data.BROKER_TOPICS + "/"):
                await self._topics.on_topic_changed(path[len(zk_data.BROKER_TOPICS) + 1 :])

    async def on_response(
        self, broker_id: int, request: ControlRequest, response: ControlResponse
    ) -> None:
        """A broker responded to a control request.

        Responses of an earlier registration of the broker, or to an earlier controller epoch, are
        dropped: what failed then was handled when the broker left, or when this controller loaded.
        """
        broker = self.image.brokers.get(broker_id)
        if (
            broker is None
            or request.broker_epoch != broker.broker_epoch
            or request.controller_epoch != self.image.controller_epoch
        ):
            return
        match request:
            case StopReplica():
                await self._deletion.on_stopped(broker_id, request, response)
            case LeaderAndIsr(partitions=partitions) if response.error is ErrorCode.NONE:
                keys = [
                    TopicPartition(partition.topic, partition.partition) for partition in partitions
                ]
                await self.brokers.on_leadership_taken(broker_id, keys, response.partition_errors)
                if response.log_epochs:
                    await self.isr_changes.raise_epochs(response.log_epochs)
            case _:
                pass
