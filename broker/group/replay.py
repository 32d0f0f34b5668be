"""Replays the records of a `__consumer_offsets` partition: what a coordinator loads.

Pure.  Records are applied in the order of the log, so the last record of a key counts; offsets of a
transaction wait for its end marker.  Records of unknown kinds, which newer coordinators write, are
skipped and counted; unreadable records are skipped and reported.

Source: Kafka's GroupMetadataManager.loadGroupsAndOffsets, GroupMetadataRecordSerde.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, Final

from odradek.broker.group.classic.records import GROUP_KEY, group_of
from odradek.broker.group.classic.state import ClassicGroup
from odradek.broker.group.consumer.records import KINDS, VALUE_VERSION, CoordinatorRecord
from odradek.broker.group.consumer.replay import replay
from odradek.broker.group.consumer.state import ConsumerGroup
from odradek.broker.group.group import Group
from odradek.broker.group.limits import Now
from odradek.broker.group.member_memory import MemberMemory
from odradek.broker.group.offsets import OffsetAndMetadata
from odradek.broker.group.records import OFFSET_KEY
from odradek.broker.group.unreadable import RANGES_KEPT, LostOffset, Unreadable
from odradek.protocol.compiler import decoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.records.record import Record
from odradek.protocol.stored.group_metadata import GroupMetadataKey, GroupMetadataValue
from odradek.protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from odradek.protocol.topic_partition import TopicPartition

VERSION: Final = Struct(">h")
OLD_OFFSET_KEY: Final = 0
GROUP_VALUE_NEWEST: Final = 4
OFFSET_VALUE_NEWEST: Final = 4
PLAIN_OFFSET: Final = Struct(">hqihq")
"""A value without metadata: version, offset, leader epoch, length of the metadata, commit time."""
PLAIN_OFFSET_VERSION: Final = 3
KEYS_KEPT: Final = 20_000
KEPT_KEY_BYTES_MAX: Final = 256
"""Kept keys use at most 20 MiB, while a log is loaded."""

Decoder = Callable[[memoryview, int], tuple[Any, int]]
OpenOffsets = dict[tuple[str, TopicPartition], OffsetAndMetadata | None]


class GroupReplay:
    """The groups of a partition while its log is loaded."""

    __slots__ = (
        "_decoders",
        "_keys",
        "_lost",
        "_memory",
        "_open",
        "_open_of",
        "groups",
        "misplaced",
        "unknown_records",
        "unreadable",
        "unreadable_count",
        "wait_ms",
    )

    def __init__(self, memory: MemberMemory | None = None) -> None:
        self.groups: dict[str, Group] = {}
        self._memory = memory or MemberMemory()
        self.unknown_records = 0
        """Records of unknown kinds."""
        self.wait_ms = 0
        """How long the next step must wait, since the log cannot be read now."""
        self.unreadable: list[Unreadable] = []
        """Skipped ranges, in the order of the log: the first `RANGES_KEPT`."""
        self.unreadable_count = 0
        self.misplaced = 0
        """Batches whose base offset was corrected."""
        self._lost: dict[tuple[str, TopicPartition], int] = {}
        """Committed offsets whose last record is unreadable -> the offset of that record."""
        self._open: dict[int, OpenOffsets] = {}
        self._open_of: dict[tuple[str, TopicPartition], dict[int, None]] = {}
        """The producers with an offset of a partition in `_open`; also some that had one."""
        self._decoders: dict[tuple[type, int], Decoder] = {}
        self._keys: dict[bytes, tuple[str, TopicPartition]] = {}
        """Decoded keys, since a group commits the same partitions repeatedly."""

    def apply(self, record: Record, producer_id: int | None = None) -> None:
        """Apply one record.

        producer_id  of its transaction, None outside of one
        raises       DecodeError if it is unreadable
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

    def skip(
        self, first_offset: int, next_offset: int, reason: str, records: Iterable[Record] = ()
    ) -> None:
        """Skip unreadable records.

        next_offset  exclusive
        records      those that could be decoded, whose keys may name committed offsets
        """
        self.unreadable_count += 1
        named = []
        for record in records:
            group_partition = self._named_by(record)
            if group_partition is not None:
                self._lost[group_partition] = record.offset
                group_id, (topic, partition) = group_partition
                named.append(f"{group_id}: {topic}-{partition}")
        if len(self.unreadable) < RANGES_KEPT:
            self.unreadable.append(Unreadable(first_offset, next_offset, reason, tuple(named)))

    def _named_by(self, record: Record) -> tuple[str, TopicPartition] | None:
        """The committed offset that a record stores; None for a tombstone."""
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
        """The committed offsets that are lost; call it after `finish`."""
        lost = []
        for (group_id, partition), log_offset in self._lost.items():
            group = self.groups.get(group_id)
            has_older = group is not None and partition in group.offsets.committed
            lost.append(LostOffset(group_id, *partition, log_offset, has_older))
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
            group = self.groups[group_id] = Group(group_id)
        return group

    # Offsets.

    def _apply_offset(
        self, data: bytes, version: int, record: Record, producer_id: int | None
    ) -> None:
        group_id, partition = self._keys.get(data) or self._read_key(data, version)
        committed = None
        if record.value is not None:
            committed = self._read_committed(record.value, record.offset)
        if producer_id is None:
            self._put(group_id, partition, committed)
        else:
            self._open.setdefault(producer_id, {})[group_id, partition] = committed
            self._open_of.setdefault((group_id, partition), {})[producer_id] = None

    def _read_key(self, data: bytes, version: int) -> tuple[str, TopicPartition]:
        key: OffsetCommitKey = self._read(OffsetCommitKey, version, data)
        group_partition = key.group, TopicPartition(key.topic, key.partition)
        if len(data) <= KEPT_KEY_BYTES_MAX:
            if len(self._keys) >= KEYS_KEPT:
                self._keys.clear()
            self._keys[data] = group_partition
        return group_partition

    def _read_committed(self, data: bytes, log_offset: int) -> OffsetAndMetadata:
        if len(data) == PLAIN_OFFSET.size:
            version, offset, epoch, metadata_bytes, commit_ms = PLAIN_OFFSET.unpack(data)
            if version == PLAIN_OFFSET_VERSION and metadata_bytes == 0:
                return OffsetAndMetadata(offset, epoch, "", commit_ms, -1, log_offset)
        value: OffsetCommitValue
        value, _ = self._read_value(OffsetCommitValue, OFFSET_VALUE_NEWEST, data)
        return OffsetAndMetadata(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp_ms,
            value.expire_timestamp_ms,
            log_offset,
        )

    def _put(
        self, group_id: str, partition: TopicPartition, committed: OffsetAndMetadata | None
    ) -> None:
        if self._lost:
            self._lost.pop((group_id, partition), None)
        if committed is not None:
            self._group(group_id).offsets.store(partition, committed)
            return
        # A tombstone ends those of open transactions, too.
        for producer_id in self._open_of.pop((group_id, partition), {}):
            self._open.get(producer_id, {}).pop((group_id, partition), None)
        group = self.groups.get(group_id)
        if group is not None:
            group.offsets.remove(partition)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply an end marker: the producer's offsets are committed or dropped."""
        for (group_id, partition), committed in self._open.pop(producer_id, {}).items():
            producers = self._open_of.get((group_id, partition), {})
            producers.pop(producer_id, None)
            if not producers:
                self._open_of.pop((group_id, partition), None)
            if is_commit:
                self._put(group_id, partition, committed)

    # Groups.

    def _apply_group(self, group_id: str, data: bytes | None) -> None:
        """Apply the record of a classic group; a tombstone leaves a consumer group as it is."""
        value: GroupMetadataValue | None = None
        if data is not None:
            value, _ = self._read_value(GroupMetadataValue, GROUP_VALUE_NEWEST, data)
        group = self.groups.pop(group_id, None) or Group(group_id)
        if value is not None:
            group.replace_body(None)
            group.replace_body(group_of(group_id, value, self._memory))
        elif isinstance(group.body, ClassicGroup):
            group.replace_body(None)
        self.groups[group_id] = group

    def _apply_consumer(self, kind: int, key: bytes, data: bytes | None) -> None:
        """Apply a record of a consumer group; its first record replaces the classic group."""
        key_kind, value_kind = KINDS[kind]
        decoded = self._read(key_kind, kind, key)
        value = None
        if data is not None:
            value, _ = self._read_value(value_kind, VALUE_VERSION, data)
        group = self.groups.get(decoded.group_id)
        consumer = None
        if group is not None and isinstance(group.body, ConsumerGroup):
            consumer = group.body
        if value is None and consumer is None:
            return
        replayed = replay(consumer, CoordinatorRecord(decoded, value), self._memory)
        (group or self._group(decoded.group_id)).replace_body(replayed)

    def release(self) -> None:
        """Give back the members' memory: the groups are not taken over."""
        for group in self.groups.values():
            group.replace_body(None)
        self.groups.clear()

    def finish(self, now: Now) -> dict[str, Group]:
        """The groups, once the log is read; the sessions of classic members start."""
        for producer_id, opened in self._open.items():
            for (group_id, partition), committed in opened.items():
                if committed is not None:
                    offsets = self._group(group_id).offsets
                    offsets.store_transactional(producer_id, partition, committed)
        for group in self.groups.values():
            if isinstance(group.body, ClassicGroup):
                group.body.start_sessions(now)
        # A deleted group without committed offsets is blank.
        return {group_id: group for group_id, group in self.groups.items() if not group.is_blank()}
