"""From the records of `__consumer_offsets` to groups: what a coordinator reads when it begins.

Pure.  Records are applied in the order of the log, so the last one of a key counts; offsets of a
transaction wait for its marker.  Records of kinds that only newer coordinators know are passed over
and counted; those that cannot be read are passed over and named.

Source: Kafka's GroupMetadataManager.loadGroupsAndOffsets, GroupMetadataRecordSerde.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, Final

from odradek.broker.group.classic.state import (
    CommittedOffset,
    Group,
    GroupState,
    Member,
    TopicPartition,
)
from odradek.broker.group.consumer.convert import forget_classic
from odradek.broker.group.consumer.records import KINDS, VALUE_VERSION, Stored
from odradek.broker.group.consumer.replay import replay
from odradek.broker.group.limits import Memory, Now
from odradek.broker.group.records import GROUP_KEY, OFFSET_KEY
from odradek.broker.group.unreadable import PLACES_KEPT, LostOffset, Unreadable
from odradek.protocol.compiler import decoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.records.record import Record
from odradek.protocol.stored.group_metadata import GroupMetadataKey, GroupMetadataValue
from odradek.protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue

VERSION: Final = Struct(">h")
OLD_OFFSET_KEY: Final = 0
GROUP_VALUE_NEWEST: Final = 4
OFFSET_VALUE_NEWEST: Final = 4
PLAIN_OFFSET: Final = Struct(">hqihq")
"""A value without metadata: version, offset, leader epoch, length of the metadata, commit time."""
PLAIN_OFFSET_VERSION: Final = 3
KEYS_KEPT: Final = 20_000
KEPT_KEY_BYTES_MAX: Final = 256
"""What is kept of keys takes 20 MiB at most, for the time of a loading."""

Decoder = Callable[[memoryview, int], tuple[Any, int]]
OpenOffsets = dict[tuple[str, TopicPartition], CommittedOffset | None]


class Loading:
    """The groups of a partition while its log is read."""

    __slots__ = (
        "_decoders",
        "_keys",
        "_lost",
        "_memory",
        "_open",
        "groups",
        "misplaced",
        "unknown_records",
        "unreadable",
        "unreadable_count",
        "wait_ms",
    )

    def __init__(self, memory: Memory | None = None) -> None:
        self.groups: dict[str, Group] = {}
        self._memory = memory or Memory()
        self.unknown_records = 0
        """Records of unknown kinds."""
        self.wait_ms = 0
        """How long the next step should wait: the log cannot be read now."""
        self.unreadable: list[Unreadable] = []
        """What was passed over, in the order of the log: the first `PLACES_KEPT`."""
        self.unreadable_count = 0
        self.misplaced = 0
        """Batches whose base offset was put right."""
        self._lost: dict[tuple[str, TopicPartition], int] = {}
        """Committed offsets whose last record cannot be read -> its offset in the log."""
        self._open: dict[int, OpenOffsets] = {}
        self._decoders: dict[tuple[type, int], Decoder] = {}
        self._keys: dict[bytes, tuple[str, TopicPartition]] = {}
        """A group commits the same partitions again and again."""

    def apply(self, record: Record, producer_id: int | None = None) -> None:
        """One record.

        producer_id  of the transaction that it belongs to
        raises       DecodeError for one that cannot be read
        """
        if record.key is None or len(record.key) < VERSION.size:
            self.unknown_records += 1
            return
        (kind,) = VERSION.unpack_from(record.key)
        if kind in (OLD_OFFSET_KEY, OFFSET_KEY):
            self._apply_offset(record.key, kind, record, producer_id)
        elif kind == GROUP_KEY:
            key = self._read(GroupMetadataKey, kind, record.key)
            self._apply_group(key.group, record.value)
        elif kind in KINDS:
            self._apply_consumer(kind, record.key, record.value)
        else:
            self.unknown_records += 1

    def pass_over(
        self, first_offset: int, next_offset: int, reason: str, records: Iterable[Record] = ()
    ) -> None:
        """Records that cannot be read.

        next_offset  exclusive
        records      what is left of them, whose keys may name committed offsets
        """
        self.unreadable_count += 1
        named = []
        for record in records:
            found = self._named_by(record)
            if found is not None:
                self._lost[found] = record.offset
                group_id, (topic, partition) = found
                named.append(f"{group_id}: {topic}-{partition}")
        if len(self.unreadable) < PLACES_KEPT:
            self.unreadable.append(Unreadable(first_offset, next_offset, reason, tuple(named)))

    def _named_by(self, record: Record) -> tuple[str, TopicPartition] | None:
        """The committed offset that a record stores, unless it deletes it."""
        key = record.key
        if key is None or len(key) < VERSION.size or record.value is None:
            return None
        (kind,) = VERSION.unpack_from(key)
        if kind not in (OLD_OFFSET_KEY, OFFSET_KEY):
            return None
        try:
            return self._read_key(key, kind)
        except DecodeError:
            return None

    def lost_offsets(self) -> list[LostOffset]:
        """The committed offsets that are not known any more; `finish` comes first."""
        lost = []
        for (group_id, place), log_offset in self._lost.items():
            group = self.groups.get(group_id)
            has_older = group is not None and place in group.offsets
            lost.append(LostOffset(group_id, *place, log_offset, has_older))
        return lost

    def _read(self, kind: type, version: int, data: bytes) -> Any:
        decode = self._decoders.get((kind, version))
        if decode is None:
            decode = self._decoders[kind, version] = decoder(kind, version)
        return decode(memoryview(data), VERSION.size)[0]

    def _read_value(self, kind: type, newest: int, data: bytes) -> tuple[Any, int]:
        if len(data) < VERSION.size:
            raise DecodeError("a value without a version")
        (version,) = VERSION.unpack_from(data)
        if not 0 <= version <= newest:
            raise DecodeError(f"{kind.__name__} of version {version}")
        return self._read(kind, version, data), version

    def _group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, self._memory)
        return group

    # Offsets.

    def _apply_offset(
        self, data: bytes, version: int, record: Record, producer_id: int | None
    ) -> None:
        group_id, place = self._keys.get(data) or self._read_key(data, version)
        committed = None
        if record.value is not None:
            committed = self._read_committed(record.value, record.offset)
        if producer_id is None:
            self._put(group_id, place, committed)
        else:
            self._open.setdefault(producer_id, {})[group_id, place] = committed

    def _read_key(self, data: bytes, version: int) -> tuple[str, TopicPartition]:
        key: OffsetCommitKey = self._read(OffsetCommitKey, version, data)
        found = key.group, (key.topic, key.partition)
        if len(data) <= KEPT_KEY_BYTES_MAX:
            if len(self._keys) >= KEYS_KEPT:
                self._keys.clear()
            self._keys[data] = found
        return found

    def _read_committed(self, data: bytes, log_offset: int) -> CommittedOffset:
        if len(data) == PLAIN_OFFSET.size:
            version, offset, epoch, metadata_bytes, commit_ms = PLAIN_OFFSET.unpack(data)
            if version == PLAIN_OFFSET_VERSION and metadata_bytes == 0:
                return CommittedOffset(offset, epoch, "", commit_ms, -1, log_offset)
        value: OffsetCommitValue
        value, _ = self._read_value(OffsetCommitValue, OFFSET_VALUE_NEWEST, data)
        return CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp_ms,
            value.expire_timestamp_ms,
            log_offset,
        )

    def _put(self, group_id: str, place: TopicPartition, committed: CommittedOffset | None) -> None:
        if self._lost:
            self._lost.pop((group_id, place), None)
        if committed is None:
            group = self.groups.get(group_id)
            if group is not None:
                group.offsets.pop(place, None)
            return
        group = self._group(group_id)
        known = group.offsets.get(place)
        if known is None or known.log_offset < committed.log_offset:
            group.offsets[place] = committed

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker: the producer's offsets count from now on, or never."""
        for (group_id, place), committed in self._open.pop(producer_id, {}).items():
            if is_commit:
                self._put(group_id, place, committed)

    # Groups.

    def _apply_group(self, group_id: str, data: bytes | None) -> None:
        value: GroupMetadataValue | None = None
        if data is not None:
            value, _ = self._read_value(GroupMetadataValue, GROUP_VALUE_NEWEST, data)
        known = self.groups.pop(group_id, None)
        group = Group(group_id, self._memory)
        if known is not None:
            known.forget()
            group.offsets = known.offsets
            if value is None:
                group.consumer = known.consumer
        if value is not None:
            restore(group, value)
        self.groups[group_id] = group

    def _apply_consumer(self, kind: int, key: bytes, data: bytes | None) -> None:
        """A record of a group of the new protocol, whose first one ends what was classic of it."""
        key_kind, value_kind = KINDS[kind]
        decoded = self._read(key_kind, kind, key)
        value = None
        if data is not None:
            value, _ = self._read_value(value_kind, VALUE_VERSION, data)
        group = self.groups.get(decoded.group_id)
        if value is None and (group is None or group.consumer is None):
            return
        if group is None:
            group = self._group(decoded.group_id)
        elif group.consumer is None:
            forget_classic(group)
        group.consumer = replay(group.consumer, Stored(decoded, value), self._memory)

    def finish(self, now: Now) -> dict[str, Group]:
        """The groups, once the log is read; their members' sessions begin now."""
        for producer_id, opened in self._open.items():
            for (group_id, place), committed in opened.items():
                if committed is not None:
                    group = self._group(group_id)
                    group.open_offsets.setdefault(producer_id, {})[place] = committed
        for group in self.groups.values():
            for member in group.members.values():
                group.touch(member, now)
        # A deleted group, or one whose offsets are all deleted, has nothing to be kept for.
        return {
            group_id: group
            for group_id, group in self.groups.items()
            if group.generation or group.consumer is not None or not group.is_idle()
        }


def restore(group: Group, value: GroupMetadataValue) -> None:
    """Make a new group what its record says; its members are those of a stable generation."""
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol = value.protocol
    group.state_changed_ms = value.current_state_timestamp_ms
    for stored in value.members:
        timeout_ms = stored.session_timeout_ms
        group.add(
            Member(
                stored.member_id,
                instance_id=stored.group_instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                rebalance_timeout_ms=timeout_ms
                if stored.rebalance_timeout_ms < 0
                else stored.rebalance_timeout_ms,
                session_timeout_ms=timeout_ms,
                protocols=((value.protocol or "", stored.subscription),),
                assignment=stored.assignment,
            )
        )
    if value.leader in group.members:
        group.leader = value.leader
    group.state = GroupState.STABLE if group.members else GroupState.EMPTY
