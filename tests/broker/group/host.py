"""A node with one shard, on a partition of `__consumer_offsets` in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from odradek.broker.coordinator_log.shard import PartitionWriter
from odradek.broker.group.classic.events import Join, JoinResult, Sync
from odradek.broker.group.classic.state import FIRST_JOIN_WAIT_MS, ClassicGroup
from odradek.broker.group.consumer.topics import TopicDirectory
from odradek.broker.group.context import GroupContext
from odradek.broker.group.group import Group
from odradek.broker.group.limits import GroupLimits
from odradek.broker.group.offsets import OffsetAndMetadata
from odradek.broker.group.offsets_log import OffsetsLog
from odradek.broker.group.shard import Shard
from odradek.controller.image.image import Image
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.record import Record
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending
from tests.support.coordinator_host import CoordinatorHost

PARTITION = TopicPartition("t", 0)
NONE = ErrorCode.NONE


class Host(CoordinatorHost):
    """A node that leads one partition of `__consumer_offsets`."""

    def __init__(self, limits: GroupLimits | None = None, in_sync: tuple[int, ...] = (1,)) -> None:
        super().__init__("__consumer_offsets", in_sync)
        self.context = GroupContext(
            self.purgatory, self.wheel, self.clock, limits or GroupLimits(initial_delay_ms=0)
        )
        self.image = Image()
        self.directory = TopicDirectory(lambda: self.image)
        self.tickets = count(1)
        self.shard = self.lead()

    def lead(self) -> Shard:
        """Lead in a new leader epoch; the shard loads the records."""
        self.lead_again()
        return Shard(self.partition, self.context, self.directory)

    def reload(self) -> Shard:
        """Close the shard and load another one."""
        self.shard.close()
        self.shard = self.lead()
        self.wait(5)
        return self.shard

    def join(self, group: str = "g", member_id: str = "", **changes: Any) -> Pending[JoinResult]:
        """A JoinGroup; after the initial delay if it is the first one of its group."""
        ticket = next(self.tickets)
        fields: dict[str, Any] = {
            "ticket": ticket,
            "member_id": member_id,
            "new_member_id": f"m{ticket}",
            "instance_id": None,
            "client_id": "c",
            "client_host": "/h",
            "rebalance_timeout_ms": 1_000,
            "session_timeout_ms": 500,
            "protocol_type": "consumer",
            "protocols": (("range", b""),),
            "is_member_id_required": False,
        }
        return self.join_with(group, Join(**{**fields, **changes}))

    def join_with(self, group_id: str, event: Join) -> Pending[JoinResult]:
        """A JoinGroup with all its fields; likewise."""
        pending = self.shard.join(group_id, event)
        group = self.shard.groups.get(group_id)
        body = None if group is None else group.body
        if isinstance(body, ClassicGroup) and body.initial_left_ms == 0:
            self.wait(FIRST_JOIN_WAIT_MS)
        return pending

    def settle(self, group: str = "g", **changes: Any) -> str:
        """Make a stable group with one member; returns the member id."""
        joined = self.join(group, **changes).result()
        assert joined.error is NONE
        done = self.shard.sync(
            group,
            Sync(
                next(self.tickets),
                joined.member_id,
                None,
                joined.generation,
                assignments=((joined.member_id, b"all"),),
            ),
        )
        assert done.result().assignment == b"all"
        return joined.member_id

    def classic(self, group: str = "g") -> ClassicGroup:
        """A group, which is classic."""
        return classic_body(self.shard.groups[group])

    def offsets(self, group: str = "g") -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of a group."""
        return self.shard.groups[group].offsets.committed

    def append(self, *records: Record) -> None:
        """Append records that no request makes."""
        writer = PartitionWriter(self.partition, self.context)
        OffsetsLog(writer, self.context).append(records, lambda error, _: None)

    def commit(
        self,
        offset: int,
        member_id: str = "",
        generation: int = -1,
        *,
        group: str = "g",
        partitions: Sequence[TopicPartition] = (PARTITION,),
    ) -> Pending[ErrorCode]:
        """An OffsetCommit of some partitions."""
        committed = OffsetAndMetadata(offset, -1, "", self.clock.now_ms())
        return self.shard.commit_offsets(
            group,
            member_id=member_id,
            instance_id=None,
            generation=generation,
            commits=dict.fromkeys(partitions, committed),
        )


def classic_body(group: Group) -> ClassicGroup:
    """The group, which is classic."""
    assert isinstance(group.body, ClassicGroup), "it is a classic group"
    return group.body


def finish(steps: Iterator[None]) -> None:
    """Run all steps."""
    for _ in steps:
        pass
