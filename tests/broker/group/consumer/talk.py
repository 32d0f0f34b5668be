"""A shard whose groups are talked to by the new protocol, with topics that come and go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any
from uuid import UUID

from odradek.broker.coordinator_log.loader import load_steps
from odradek.broker.group.classic.events import Join, JoinResult, LeavingMember, Sync, SyncResult
from odradek.broker.group.consumer.heartbeat import ConsumerHeartbeat, HeartbeatResult
from odradek.broker.group.consumer.state import ConsumerGroup
from odradek.broker.group.group import Group
from odradek.broker.group.offsets import OffsetAndMetadata
from odradek.broker.group.offsets_log import OffsetsTransaction
from odradek.broker.group.replay import GroupReplay
from odradek.broker.settings.groups import ConsumerGroupSettings
from odradek.controller.image.image import Image, PartitionImage, TopicImage
from odradek.protocol.compiler import encoder
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import iterate_batches
from odradek.protocol.records.record import Record, decode_records
from odradek.protocol.stored import consumer_protocol
from odradek.protocol.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from odradek.protocol.topic_partition import TopicPartition
from tests.broker.group.host import Host

EVERYTHING: dict[str, Any] = {"topic_names": ("a",), "reported": (), "rebalance_timeout_ms": 30_000}
"""What a member says when it joins."""
PartitionsByTopic = dict[str, tuple[int, ...]]
"""Topic -> partitions, as tests like them."""


def topic_id(name: str) -> UUID:
    """The id that tests give a topic; its first 16 characters name it."""
    return UUID(bytes=name.encode()[:16].ljust(16, b"\0"))


def subscription(*names: str, owned: PartitionsByTopic | None = None) -> bytes:
    """What a classic member says."""
    message = ConsumerProtocolSubscription(
        topics=list(names),
        owned_partitions=[
            consumer_protocol.TopicPartition(topic=name, partitions=list(partitions))
            for name, partitions in (owned or {}).items()
        ],
    )
    return b"\0\3" + encoder(ConsumerProtocolSubscription, 3)(message)


def assignment(partitions_of: PartitionsByTopic, user_data: bytes | None = None) -> bytes:
    """What a leader gives a classic member."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            consumer_protocol.TopicPartition(topic=name, partitions=list(partitions))
            for name, partitions in partitions_of.items()
        ],
        user_data=user_data,
    )
    return b"\0\3" + encoder(ConsumerProtocolAssignment, 3)(message)


class Talk(Host):
    """A coordinator of groups, and topics a (3 partitions) and b (2)."""

    def __init__(self, in_sync: tuple[int, ...] = (1,), **settings: Any) -> None:
        super().__init__(in_sync=in_sync)
        settings.setdefault("assignment_interval_ms", 0)
        self.context.consumer = ConsumerGroupSettings(**settings)
        self.numbers = count(1)
        self.make_topic("a", 3)
        self.make_topic("b", 2)

    # Topics.

    def make_topic(self, name: str, partitions: int) -> None:
        """A topic, or more partitions of it."""
        made = TopicImage(
            name,
            topic_id(name),
            {number: PartitionImage(number, (1,)) for number in range(partitions)},
        )
        topics = {**self.image.topics, name: made}
        self._show(topics)

    def delete_topic(self, name: str) -> None:
        """It is gone."""
        self._show(
            {
                topic_name: topic
                for topic_name, topic in self.image.topics.items()
                if topic_name != name
            }
        )

    def _show(self, topics: dict[str, TopicImage]) -> None:
        names = {topic.topic_id: name for name, topic in topics.items()}
        self.image = Image(topics=topics, topic_names=names)

    # The new protocol.

    def group(self, group_id: str = "g") -> ConsumerGroup:
        """The group, which is one of the new protocol."""
        return consumer_body(self.shard.groups[group_id])

    def heartbeat(
        self, member_id: str, epoch: int, group_id: str = "g", **changes: Any
    ) -> HeartbeatResult:
        """A heartbeat that is answered at once.

        raises  BrokerError as it is refused
        """
        base = EVERYTHING if epoch == 0 else {}
        reported = changes.get("reported")
        if isinstance(reported, dict):
            changes["reported"] = [
                (topic_id(name), list(numbers)) for name, numbers in reported.items()
            ]
        request = ConsumerHeartbeat(
            member_id=member_id,
            epoch=epoch,
            client_id="client",
            client_host="/127.0.0.1",
            **{**base, **changes},
        )
        response = self.shard.consumer_heartbeat(group_id, request).result()
        if isinstance(response, BrokerError):
            raise response
        return response

    def refusal(self, member_id: str, epoch: int, **changes: Any) -> BrokerError:
        """Why a heartbeat is refused; nothing is written then."""
        end_offset = self.partition.log.end_offset
        try:
            self.heartbeat(member_id, epoch, **changes)
        except BrokerError as error:
            assert self.partition.log.end_offset == end_offset, "a refusal writes nothing"
            return error
        raise AssertionError("it was not refused")

    def names(self, response: HeartbeatResult) -> PartitionsByTopic | None:
        """The assignment of a response, by topic name."""
        if response.assigned is None:
            return None
        directory = self.directory
        named = {}
        for id_of_topic, partitions in response.assigned.items():
            facts = directory.by_id(id_of_topic)
            named["?" if facts is None else facts.name] = tuple(partitions)
        return named

    # The classic protocol.

    def classic_join(
        self, member_id: str, *names: str, owned: PartitionsByTopic | None = None, **changes: Any
    ) -> JoinResult | None:
        """A JoinGroup; None while it waits."""
        event = Join(
            ticket=next(self.tickets),
            member_id=member_id,
            new_member_id=f"new-{next(self.numbers)}",
            instance_id=changes.pop("instance_id", None),
            client_id="old",
            client_host="/127.0.0.1",
            rebalance_timeout_ms=10_000,
            session_timeout_ms=6_000,
            protocol_type=changes.pop("protocol_type", "consumer"),
            protocols=changes.pop(
                "protocols", (("range", subscription(*(names or ("a",)), owned=owned)),)
            ),
            is_member_id_required=changes.pop("is_member_id_required", False),
        )
        pending = self.join_with("g", event)
        return pending.result() if pending.is_done else None

    def classic_sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        **changes: Any,
    ) -> SyncResult | None:
        """A SyncGroup; None while it waits."""
        event = Sync(
            next(self.tickets),
            member_id,
            changes.pop("instance_id", None),
            generation,
            changes.pop("protocol_type", "consumer"),
            changes.pop("protocol", "range"),
            tuple((assignments or {}).items()),
        )
        pending = self.shard.sync("g", event)
        return pending.result() if pending.is_done else None

    def classic_heartbeat(self, member_id: str, generation: int) -> ErrorCode:
        """A Heartbeat."""
        return self.shard.heartbeat("g", member_id, None, generation)

    def classic_leave(self, *member_ids: str) -> list[ErrorCode]:
        """A LeaveGroup."""
        return self.shard.leave(
            "g", [LeavingMember(member_id, None) for member_id in member_ids]
        ).result()

    def settle_classic(self) -> str:
        """A classic group of one member that has all of topic a; its id."""
        joined = self.classic_join("")
        assert joined is not None
        assert joined.error is ErrorCode.NONE
        everything = assignment({"a": (0, 1, 2)})
        synced = self.classic_sync(
            joined.member_id, joined.generation, {joined.member_id: everything}
        )
        assert synced is not None
        assert synced.assignment == everything
        return joined.member_id

    # Offsets.

    def commit_as(
        self, member_id: str, epoch: int, *partitions: int, version: int = 9, topic: str = "a"
    ) -> ErrorCode:
        """An OffsetCommit."""
        return self.shard.commit_offsets(
            "g",
            member_id=member_id,
            instance_id=None,
            generation=epoch,
            commits={
                TopicPartition(topic, index): OffsetAndMetadata(7, -1, "", self.clock.now_ms())
                for index in partitions or (0,)
            },
            version=version,
        ).result()

    def commit_in_transaction(
        self, member_id: str, epoch: int, *, instance_id: str | None = None
    ) -> ErrorCode:
        """A TxnOffsetCommit without offsets: whether it may commit."""
        return self.shard.commit_transactional_offsets(
            "g",
            OffsetsTransaction(1, 0, is_verified=False, guard=None),
            member_id=member_id,
            instance_id=instance_id,
            generation=epoch,
            commits={},
        ).result()

    # What the log says.

    def stored(self) -> Iterator[Record]:
        """The records in the log."""
        log = self.partition.log
        offset = log.log_start_offset
        while offset < log.end_offset:
            slice_ = log.read(offset, 1 << 20, up_to_offset=log.end_offset)
            assert slice_ is not None
            for batch in iterate_batches(memoryview(slice_.read()), allow_partial=True):
                yield from decode_records(batch)
                offset = batch.next_offset
            slice_.release()

    def read(self, records: Iterable[Record]) -> dict[str, Group]:
        """The groups that records make."""
        loading = GroupReplay()
        for record in records:
            loading.apply(record)
        return loading.finish(self.context.now())

    def state_of(self, groups: dict[str, Group]) -> dict[str, list[Any]]:
        """All that is stored of the groups of the new protocol."""
        return {
            name: [getattr(group.body, field) for field in STORED_FIELDS]
            for name, group in groups.items()
            if isinstance(group.body, ConsumerGroup)
        }

    def replayed(self) -> dict[str, Group]:
        """The groups that a coordinator would read."""
        loading = GroupReplay()
        log = self.partition.log
        for _ in load_steps(log, loading):
            pass
        return loading.finish(self.context.now())

    def check_compacted(self) -> None:
        """A log of which only the last record of each key is left, or not even deletions, says
        the same."""
        records = list(self.stored())
        last = {record.key: number for number, record in enumerate(records)}
        kept = [record for number, record in enumerate(records) if last[record.key] == number]
        alive = [record for record in kept if record.value is not None]
        assert len(alive) < len(kept) < len(records)
        whole = self.state_of(self.read(records))
        assert self.state_of(self.read(kept)) == whole
        assert self.state_of(self.read(alive)) == whole

    def check(self) -> None:
        """Memory is what the log says."""
        replayed = self.replayed()
        groups = {
            name: group
            for name, group in self.shard.groups.items()
            if isinstance(group.body, ConsumerGroup)
        }
        assert sorted(groups) == sorted(
            name for name, group in replayed.items() if isinstance(group.body, ConsumerGroup)
        )
        for name, group in groups.items():
            body, other = consumer_body(group), consumer_body(replayed[name])
            body.check()
            other.check()
            for field in STORED_FIELDS:
                assert getattr(body, field) == getattr(other, field), field
            assert group.offsets.committed == replayed[name].offsets.committed


def consumer_body(group: Group) -> ConsumerGroup:
    """The group, which is a consumer group."""
    assert isinstance(group.body, ConsumerGroup), "it is a consumer group"
    return group.body


STORED_FIELDS = (
    "epoch",
    "metadata_hash",
    "target_epoch",
    "target_timestamp_ms",
    "members",
    "static_members",
    "targets",
    "partition_epochs",
    "topics",
    "regex_subscribers",
    "resolved_regexes",
    "assignor_votes",
    "classic_count",
    "classic_protocols",
    "state",
)
