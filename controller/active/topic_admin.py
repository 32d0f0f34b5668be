"""Requests of clients to create, grow and delete topics, written to znodes.

Any broker may write them (one that creates a topic on first use does), so the writes are not fenced
by the controller epoch.  The active controller reads them when its watches fire.
Source: Kafka's ZkAdminManager, AdminZkClient.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from odradek.controller.active.partition_states import ControllerSettings
from odradek.controller.coordination.errors import (
    BadVersion,
    ConnectionLoss,
    MultiFailed,
    NodeExists,
    NoNode,
)
from odradek.controller.coordination.session import (
    ANY_VERSION,
    CoordinationSession,
    Create,
    SetData,
    ZkOperation,
)
from odradek.controller.decide.partitions import CreatePartitionsSpec, decide_create_partitions
from odradek.controller.decide.placement import Placement
from odradek.controller.decide.topics import (
    CreateTopicSpec,
    KnownTopics,
    TopicCreationInputs,
    TopicToCreate,
    decide_create_topic,
    has_collision_characters,
    is_good_topic_id,
)
from odradek.controller.image.image import (
    HASHED_PARTITION_COUNT,
    INTERNAL_TOPICS,
    Image,
    TopicImage,
)
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.cluster_reading import topic_image
from odradek.controller.znodes.config_znodes import encode_config
from odradek.controller.znodes.dynamic_configs import TOPICS, write_config
from odradek.controller.znodes.fenced_writes import read_all
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import ZERO_UUID
from odradek.runtime.randomness import Randomness
from odradek.runtime.work import pause

ATTEMPTS_MAX = 10
PARTITIONS_OF_A_UNIT: Final = 64
"""Partitions of a new topic that are placed, or written into its znode, in a unit."""
_CONFIG_SHOWN_MAX = 500
"""Characters of a topic's config in a log line."""

logger = logging.getLogger("odradek.controller")
refused = logging.getLogger("odradek.producer_ids")


class TopicResult(NamedTuple):
    """The outcome of a request for one topic.

    NONE means that the znodes are written (with validate_only: could be), not that the controller
    has acted on them: a new topic serves once `Image.has_leaders` is true, a deleted one is removed
    from `Image.topics`.
    """

    topic: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: UUID = ZERO_UUID
    replicas: Mapping[int, tuple[int, ...]] = MappingProxyType({})
    """Partition -> replicas: of all partitions of a new topic, or of those added to a topic."""

    @classmethod
    def refused(cls, topic: str, refusal: BrokerError) -> TopicResult:
        return cls(topic, refusal.code, refusal.message)


Charge = Callable[[int], None]
"""Called before so many partitions are created or deleted; raises BrokerError to refuse it."""


def free_of_charge(_: int) -> None:
    """No quota applies."""


class Requester(NamedTuple):
    """Whom a topic is changed for, and how."""

    name: str = "this broker"
    """For the log."""
    charge: Charge = free_of_charge
    validate_only: bool = False
    """Nothing is written."""


class TopicAdmin:
    """Writes topics, partitions and pending deletions."""

    def __init__(
        self,
        session: CoordinationSession,
        settings: ControllerSettings,
        randomness: Randomness,
        image: Callable[[], Image],
        *,
        check_new_topic: Callable[[str], None],
    ) -> None:
        """image            this broker's own image: its live brokers get the new replicas
        check_new_topic  raises BrokerError when this broker cannot hold a new topic of that name
        """
        self._session = session
        self._settings = settings
        self._randomness = randomness
        self._image = image
        self._check_new_topic = check_new_topic

    def new_topic_id(self) -> UUID:
        """A random id whose text does not begin with '-'."""
        while not is_good_topic_id(topic_id := self._randomness.uuid()):
            pass
        return topic_id

    async def create_topic(self, spec: CreateTopicSpec, requester: Requester) -> TopicResult:
        """Decide and write one topic."""
        bound = 1 << 30
        inputs = TopicCreationInputs(
            topic_id=self.new_topic_id(),
            start=self._randomness.below(bound),
            shift=self._randomness.below(bound),
            default_partitions=self._settings.partitions,
            default_replication_factor=self._settings.replication_factor,
        )
        try:
            known_topics = await self._known_topics(spec.name)
            # Many topics of a request that waited for others may only be validated.
            await pause(1 + max(spec.partitions, len(spec.assignments)) // PARTITIONS_OF_A_UNIT)
            brokers = self._image().live_brokers()
            topic = decide_create_topic(brokers, known_topics, spec, inputs)
            self._check_new_topic(spec.name)
            if not requester.validate_only:
                requester.charge(len(topic.replicas))
                await pause(len(topic.replicas) // PARTITIONS_OF_A_UNIT)
                await self._write_topic(topic)
                _log_created(topic, requester.name)
        except BrokerError as refusal:
            return TopicResult.refused(spec.name, refusal)
        topic_id = ZERO_UUID if requester.validate_only else topic.topic_id
        return TopicResult(spec.name, topic_id=topic_id, replicas=topic.replicas)

    async def create_partitions(
        self, spec: CreatePartitionsSpec, requester: Requester
    ) -> TopicResult:
        """Decide and write the new partitions of one topic."""
        try:
            for _ in range(ATTEMPTS_MAX):
                placed = await self._add_partitions(spec, requester)
                requester = requester._replace(charge=free_of_charge)
                if placed is not None:
                    if not requester.validate_only:
                        logger.info(
                            "topic %s has %d partitions now, %d of them new, by %s",
                            spec.topic,
                            spec.count,
                            len(placed),
                            requester.name,
                        )
                    return TopicResult(spec.topic, replicas=placed)
            raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the topic kept changing")
        except BrokerError as refusal:
            return TopicResult.refused(spec.topic, refusal)

    async def delete_topic(
        self, topic: str, requester: Requester, *, is_repeated: bool = False
    ) -> TopicResult:
        """Write a pending deletion; repeating it changes nothing.

        is_repeated  the response of an earlier attempt was lost
        """
        if not self._settings.is_deletion_enabled:
            return TopicResult(
                topic, ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled."
            )
        if not is_repeated and topic not in self._image().topics:
            # Also one whose deletion is under way.
            return TopicResult(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        path = zk_data.topic_path(topic)
        if not _is_path_part(topic) or await self._session.exists(path) is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return TopicResult(topic, ErrorCode.NONE if is_repeated else unknown)
        if topic in self._image().topics:
            try:
                requester.charge(len(self._image().topics[topic].partitions))
            except BrokerError as refusal:
                return TopicResult.refused(topic, refusal)
        # Before it is: the controller may act on it before the result is here.
        logger.info("topic %s is marked for deletion, by %s", topic, requester.name)
        try:
            await self._session.create(zk_data.delete_topic_path(topic), None)
        except NodeExists:
            pass
        except ConnectionLoss:
            # Once more: the topic that it has removed meanwhile does not exist any more.
            again = Requester(requester.name)
            return await self.delete_topic(topic, again, is_repeated=True)
        return TopicResult(topic)

    async def _known_topics(self, name: str) -> KnownTopics:
        names: Sequence[str] = ()
        if not _is_path_part(name):
            return KnownTopics(exists=False)
        is_marked = await self._is_marked_for_deletion(name)
        stat = await self._session.exists(zk_data.topic_path(name))
        if has_collision_characters(name):
            names = await self._session.children(zk_data.BROKER_TOPICS)
        return KnownTopics(stat is not None, is_marked, names)

    async def _is_marked_for_deletion(self, name: str) -> bool:
        return await self._session.exists(zk_data.delete_topic_path(name)) is not None

    async def _write_topic(self, topic: TopicToCreate) -> None:
        """Write config and assignment in one multi: a topic never appears without its config, or
        with that of an earlier topic of its name."""
        assignment = zk_data.TopicAssignmentZnode(topic.topic_id, topic.replicas, {}, {})
        config_path = zk_data.config_path("topics", topic.name)
        config = encode_config(topic.config)
        create = Create(zk_data.topic_path(topic.name), assignment.encode())
        write: ZkOperation = Create(config_path, config)
        for _ in range(ATTEMPTS_MAX):
            try:
                await self._session.multi([write, create])
                return
            except ConnectionLoss:
                if await self._is_written(topic):
                    return
            except MultiFailed as failed:
                if isinstance(failed.error, NodeExists):
                    if failed.index == 1:
                        raise _already_exists(topic.name) from failed
                    # The config of an earlier topic of this name was left over: replace it.
                    write = SetData(config_path, config)
                elif isinstance(failed.error, NoNode) and isinstance(write, SetData):
                    write = Create(config_path, config)
                else:
                    raise
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the topic's config kept changing")

    async def _is_written(self, topic: TopicToCreate) -> bool:
        """Whether the topic was created by the write whose response was lost: its id is random."""
        (znode,) = await read_all(self._session, [zk_data.topic_path(topic.name)])
        if znode is None:
            return False
        try:
            return zk_data.TopicAssignmentZnode.decode(znode[0]).topic_id == topic.topic_id
        except zk_data.BadZnode:
            return False

    async def _add_partitions(
        self, spec: CreatePartitionsSpec, requester: Requester
    ) -> Placement | None:
        path = zk_data.topic_path(spec.topic)
        brokers = self._image().live_brokers()
        topic: TopicImage | None = None
        assignment = zk_data.TopicAssignmentZnode(None, {}, {}, {})
        version = ANY_VERSION
        paths = [path] if _is_path_part(spec.topic) else []
        for znode in await read_all(self._session, paths):
            if znode is None:
                break
            version = znode[1].version
            assignment = zk_data.TopicAssignmentZnode.decode(znode[0])
            topic = topic_image(spec.topic, assignment)
        if paths and await self._is_marked_for_deletion(spec.topic):
            raise BrokerError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion."
            )
        placed = decide_create_partitions(brokers, topic, spec)
        if not requester.validate_only:
            requester.charge(len(placed))
            await pause(spec.count // PARTITIONS_OF_A_UNIT)
            if spec.topic in INTERNAL_TOPICS:
                # Before there are more: no broker may spread keys over all of them.
                count = str(len(assignment.partitions))
                await write_config(
                    self._session,
                    TOPICS,
                    spec.topic,
                    lambda stored: {HASHED_PARTITION_COUNT: count, **stored},
                    requested_by=requester.name,
                )
            grown = assignment._replace(partitions={**assignment.partitions, **placed})
            try:
                await self._session.set(path, grown.encode(), version)
            except (BadVersion, NoNode):
                return None
            except ConnectionLoss:
                (written,) = await read_all(self._session, [path])
                is_ours = written is not None and written[1].version == version + 1
                if not is_ours or written is None or written[0] != grown.encode():
                    return None
        return placed


def _is_path_part(name: str) -> bool:
    return bool(name) and "/" not in name and name not in (".", "..")


def _log_created(topic: TopicToCreate, requested_by: str) -> None:
    config = ", ".join(f"{key}={topic.config[key]}" for key in sorted(topic.config))
    logger.info(
        "topic %s was created: id %s, %d partitions, replication factor %d, %s, by %s",
        topic.name,
        zk_data.encode_topic_id(topic.topic_id),
        len(topic.replicas),
        len(topic.replicas[0]),
        config[:_CONFIG_SHOWN_MAX] if config else "default config",
        requested_by,
    )


def _already_exists(name: str) -> BrokerError:
    return BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


async def allocate_producer_ids(session: CoordinationSession, broker_id: int) -> tuple[int, int]:
    """(first id, count) of a block that was not allocated before.

    raises  CoordinationError; BrokerError UNKNOWN_SERVER_ERROR when all ids are used up
    """
    for _ in range(ATTEMPTS_MAX):
        data, stat = await session.get(zk_data.PRODUCER_ID_BLOCK)
        try:
            start = zk_data.ProducerIdBlockZnode.decode(data).end + 1 if data else 0
        except zk_data.BadZnode as error:
            refused.warning("no producer ids: %s: %s", zk_data.PRODUCER_ID_BLOCK, error)
            raise
        end = start + zk_data.PRODUCER_ID_BLOCK_SIZE - 1
        if end > zk_data.PRODUCER_ID_MAX:
            raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used up")
        block = zk_data.ProducerIdBlockZnode(broker_id, start, end)
        try:
            await session.set(zk_data.PRODUCER_ID_BLOCK, block.encode(), stat.version)
        except (BadVersion, ConnectionLoss):
            # A block whose response was lost is given to no broker.
            continue
        return start, zk_data.PRODUCER_ID_BLOCK_SIZE
    raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the block of producer ids kept changing")
