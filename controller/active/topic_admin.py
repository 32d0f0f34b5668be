"""Wishes of clients that are written for the controller to find: topics, partitions, deletions.

Any broker may write them (a broker that creates a topic on first use does); the controller learns
of them by its watches, like everybody's.  Hence they are not fenced by the controller's epoch.
Source: Kafka's ZkAdminManager, AdminZkClient.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from odradek.controller.active.partition_states import ControllerSettings
from odradek.controller.coordination.errors import BadVersion, MultiFailed, NodeExists, NoNode
from odradek.controller.coordination.session import ANY_VERSION, Create, Session, SetData
from odradek.controller.decide.partitions import CreatePartitions, decide_create_partitions
from odradek.controller.decide.placement import Placement
from odradek.controller.decide.topics import (
    CreateTopic,
    KnownTopics,
    TopicDraw,
    TopicToCreate,
    decide_create_topic,
    has_collision_characters,
    is_good_topic_id,
)
from odradek.controller.image import Image, TopicImage
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.cluster_reading import topic_image
from odradek.controller.znodes.config_znodes import encode_config
from odradek.controller.znodes.fenced_writes import read_all
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.randomness import Randomness

ATTEMPTS_MAX = 10
CONFIG_SHOWN_MAX = 500
"""Characters of a topic's config in a log line."""

logger = logging.getLogger("odradek.controller")


@dataclass(frozen=True, slots=True)
class TopicResult:
    """What became of a wish about a topic.

    NONE means that it is written (or, validating only, could be), not that it is carried out:
    a new topic serves once `Image.has_leaders` says so, a deleted one leaves `Image.topics`.
    """

    topic: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: UUID = zk_data.NO_TOPIC_ID
    replicas: Placement = field(default_factory=dict)
    """Partition -> replicas: all of a new topic's, or of a topic that got more, the new ones."""

    @classmethod
    def refused(cls, topic: str, refusal: BrokerError) -> TopicResult:
        """A wish that was not granted."""
        return cls(topic, refusal.code, refusal.message)


class Admin:
    """Writes wishes."""

    def __init__(
        self,
        session: Session,
        settings: ControllerSettings,
        rng: Randomness,
        image: Callable[[], Image],
        *,
        check_new_topic: Callable[[str], None],
    ) -> None:
        """image            this broker's own image: its live brokers get the new replicas
        check_new_topic  raises BrokerError when this broker cannot hold a new topic of that name
        """
        self._session = session
        self._settings = settings
        self._rng = rng
        self._image = image
        self._check_new_topic = check_new_topic

    def new_topic_id(self) -> UUID:
        """A random id whose text does not begin with '-'."""
        while not is_good_topic_id(topic_id := self._rng.uuid()):
            pass
        return topic_id

    async def create_topic(
        self, wish: CreateTopic, *, validate_only: bool, requested_by: str
    ) -> TopicResult:
        """Decide and write one topic."""
        bound = 1 << 30
        draw = TopicDraw(
            topic_id=self.new_topic_id(),
            start=self._rng.below(bound),
            shift=self._rng.below(bound),
            default_partitions=self._settings.partitions,
            default_replication_factor=self._settings.replication_factor,
        )
        try:
            known = await self._known_topics(wish.name)
            brokers = self._image().live_brokers()
            topic = decide_create_topic(brokers, known, wish, draw)
            self._check_new_topic(wish.name)
            if not validate_only:
                await self._write_topic(topic)
                _log_created(topic, requested_by)
        except BrokerError as refusal:
            return TopicResult.refused(wish.name, refusal)
        topic_id = zk_data.NO_TOPIC_ID if validate_only else topic.topic_id
        return TopicResult(wish.name, topic_id=topic_id, replicas=topic.replicas)

    async def create_partitions(
        self, wish: CreatePartitions, *, validate_only: bool, requested_by: str
    ) -> TopicResult:
        """Decide and write one topic's new partitions."""
        try:
            for _ in range(ATTEMPTS_MAX):
                placed = await self._add_partitions(wish, validate_only=validate_only)
                if placed is not None:
                    if not validate_only:
                        logger.info(
                            "topic %s has %d partitions now, %d of them new, by %s",
                            wish.topic,
                            wish.count,
                            len(placed),
                            requested_by,
                        )
                    return TopicResult(wish.topic, replicas=placed)
            raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the topic kept changing")
        except BrokerError as refusal:
            return TopicResult.refused(wish.topic, refusal)

    async def delete_topic(self, topic: str, *, requested_by: str) -> TopicResult:
        """Mark a topic for deletion; to mark it again changes nothing."""
        if not self._settings.is_deletion_enabled:
            return TopicResult(
                topic, ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled."
            )
        path = zk_data.topic_path(topic)
        if not _is_path_part(topic) or await self._session.exists(path) is None:
            return TopicResult(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        with contextlib.suppress(NodeExists):
            await self._session.create(zk_data.delete_topic_path(topic), None)
            logger.info("topic %s is marked for deletion, by %s", topic, requested_by)
        return TopicResult(topic)

    async def _known_topics(self, name: str) -> KnownTopics:
        names: Sequence[str] = ()
        if not _is_path_part(name):
            return KnownTopics(exists=False)
        marked = await self._session.exists(zk_data.delete_topic_path(name))
        found = await self._session.exists(zk_data.topic_path(name))
        if has_collision_characters(name):
            names = await self._session.children(zk_data.BROKER_TOPICS)
        return KnownTopics(found is not None, marked is not None, names)

    async def _write_topic(self, topic: TopicToCreate) -> None:
        """Config and assignment in one multi: nobody sees a topic with another's config."""
        assignment = zk_data.TopicAssignmentZnode(topic.topic_id, topic.replicas, {}, {})
        config_path = zk_data.config_path("topics", topic.name)
        config = encode_config(topic.config)
        make = Create(zk_data.topic_path(topic.name), assignment.encode())
        for _ in range(ATTEMPTS_MAX):
            try:
                await self._session.multi([Create(config_path, config), make])
                return
            except MultiFailed as failed:
                if not isinstance(failed.error, NodeExists):
                    raise
                if failed.index == 1:
                    raise _already_exists(topic.name) from failed
            # A config that outlived its topic.
            try:
                await self._session.multi([SetData(config_path, config), make])
                return
            except MultiFailed as refused:
                if isinstance(refused.error, NodeExists):
                    raise _already_exists(topic.name) from refused
                if not isinstance(refused.error, NoNode):
                    raise
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the topic's config kept changing")

    async def _add_partitions(
        self, wish: CreatePartitions, *, validate_only: bool
    ) -> Placement | None:
        path = zk_data.topic_path(wish.topic)
        brokers = self._image().live_brokers()
        topic: TopicImage | None = None
        assignment = zk_data.TopicAssignmentZnode(None, {}, {}, {})
        version = ANY_VERSION
        paths = [path] if _is_path_part(wish.topic) else []
        for found in await read_all(self._session, paths):
            if found is None:
                break
            version = found[1].version
            assignment = zk_data.TopicAssignmentZnode.decode(found[0])
            topic = topic_image(wish.topic, assignment)
        placed = decide_create_partitions(brokers, topic, wish)
        if not validate_only:
            grown = replace(assignment, partitions={**assignment.partitions, **placed})
            try:
                await self._session.set(path, grown.encode(), version)
            except (BadVersion, NoNode):
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
        config[:CONFIG_SHOWN_MAX] if config else "default config",
        requested_by,
    )


def _already_exists(name: str) -> BrokerError:
    return BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


async def allocate_producer_ids(session: Session, broker_id: int) -> tuple[int, int]:
    """(first id, count) of a block that no broker got before.

    raises  CoordinationError; BrokerError UNKNOWN_SERVER_ERROR when all ids are used up
    """
    for _ in range(ATTEMPTS_MAX):
        data, stat = await session.get(zk_data.PRODUCER_ID_BLOCK)
        start = zk_data.ProducerIdBlockZnode.decode(data).end + 1 if data else 0
        end = start + zk_data.PRODUCER_ID_BLOCK_SIZE - 1
        if end > zk_data.PRODUCER_ID_MAX:
            raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used up")
        block = zk_data.ProducerIdBlockZnode(broker_id, start, end)
        try:
            await session.set(zk_data.PRODUCER_ID_BLOCK, block.encode(), stat.version)
        except BadVersion:
            continue
        return start, zk_data.PRODUCER_ID_BLOCK_SIZE
    raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the block of producer ids kept changing")
