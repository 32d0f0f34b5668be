"""A consumer group in memory: members, target and current assignments, owners of partitions.

Pure.  Deadlines and the marks of what was compared or matched last are not stored.  Everything else
is in the group's records and changes only when `replay` applies a record, after its append or while
a log is loaded; so a loaded group equals the one that wrote the records.

Invariants (`check`): an instance id names the member that has it; counts of subscriptions,
assignors and classic members are those of the members; a partition has the epoch of one of the
members that own it.

Source: KIP-848; Kafka 4.3's ModernGroup and ConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID as Uuid

from odradek.broker.group.classic.consumer_protocol import CONSUMER_PROTOCOL
from odradek.broker.group.classic.state import MEMBER_BYTES, NEVER, protocols_bytes
from odradek.broker.group.consumer.model import (
    NOTHING,
    Assignment,
    ConsumerMember,
    MemberState,
    OwnedPartitions,
)
from odradek.broker.group.member_memory import MemberMemory

NAME_BYTES: Final = 60
"""Memory of a string without its characters."""
FIRST_EPOCH: Final = 1
"""Epoch of a group without records, and of its target."""
NO_TARGET_EPOCH: Final = -1
"""After the tombstone of the target, which precedes that of the group."""
NOT_OWNED: Final = -1
NEVER_MATCHED: Final = -(2**63)
NOTHING_SEEN: Final = (-1, 0)
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
"""A static member leaves temporarily."""


class ConsumerState(StrEnum):
    """The states, as ConsumerGroupDescribe and ListGroups spell them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ResolvedRegex(NamedTuple):
    """The topics that an expression matched."""

    topics: tuple[str, ...]
    """Ascending."""
    version: int
    """`TopicDirectory.names_version` of the topics that were matched."""
    timestamp_ms: int


class Subscribers(NamedTuple):
    """How often a group is subscribed to a topic."""

    by_name: int = 0
    """Members that name it."""
    by_regex: int = 0
    """Resolved expressions that match it."""


class PassedDeadlines(NamedTuple):
    """Member ids, of each kind of deadline; those of revocations with the epoch."""

    sessions: list[str]
    rebalances: list[tuple[str, int]]
    joins: list[str]
    syncs: list[str]


class Deadlines:
    """The deadlines of members, monotonic; not stored, they start again after a load.

    sessions    of the next heartbeat
    rebalances  of the revocation of partitions, with the epoch that the member has until then
    joins       of the JoinGroup of a classic member that must join again
    syncs       of the SyncGroup of a classic member that has joined
    """

    __slots__ = ("joins", "rebalances", "sessions", "syncs", "wake_ms")

    def __init__(self) -> None:
        self.sessions: dict[str, int] = {}
        self.rebalances: dict[str, tuple[int, int]] = {}
        self.joins: dict[str, int] = {}
        self.syncs: dict[str, int] = {}
        self.wake_ms = NEVER
        """No deadline is before it."""

    def _wake(self, deadline_ms: int) -> None:
        if deadline_ms < self.wake_ms:
            self.wake_ms = deadline_ms

    def touch(self, member_id: str, deadline_ms: int) -> None:
        """Set the end of the member's session."""
        self.sessions[member_id] = deadline_ms
        self._wake(deadline_ms)

    def await_revocation(self, member_id: str, deadline_ms: int, epoch: int) -> None:
        """Set the time by which the member must have left the epoch."""
        self.rebalances[member_id] = (deadline_ms, epoch)
        self._wake(deadline_ms)

    def end_revocation(self, member_id: str) -> None:
        """The member has no partition left to revoke."""
        self.rebalances.pop(member_id, None)

    def await_join(self, member_id: str, deadline_ms: int) -> None:
        """Set the time by which the member must have joined, unless one is set already."""
        self._wake(self.joins.setdefault(member_id, deadline_ms))

    def await_sync(self, member_id: str, deadline_ms: int) -> None:
        """The member has joined; set the time by which it must have sent SyncGroup."""
        self.joins.pop(member_id, None)
        self.syncs[member_id] = deadline_ms
        self._wake(deadline_ms)

    def end_sync(self, member_id: str) -> None:
        """The member has sent SyncGroup."""
        self.syncs.pop(member_id, None)

    def remove(self, member_id: str) -> None:
        """Remove all deadlines of a member."""
        self.sessions.pop(member_id, None)
        self.rebalances.pop(member_id, None)
        self.joins.pop(member_id, None)
        self.syncs.pop(member_id, None)

    def take_passed(self, now_ms: int) -> PassedDeadlines:
        """Remove the deadlines that have passed."""
        passed = PassedDeadlines(
            sessions=_take_passed(self.sessions, now_ms),
            rebalances=[
                (member_id, epoch)
                for member_id, (deadline_ms, epoch) in self.rebalances.items()
                if deadline_ms <= now_ms
            ],
            joins=_take_passed(self.joins, now_ms),
            syncs=_take_passed(self.syncs, now_ms),
        )
        for member_id, _ in passed.rebalances:
            del self.rebalances[member_id]
        self._settle()
        return passed

    def _settle(self) -> None:
        """Compute `wake_ms` again.

        cost  linear in the members
        """
        waits = (self.sessions, self.joins, self.syncs)
        self.wake_ms = min(
            *(min(deadlines.values(), default=NEVER) for deadlines in waits),
            min((deadline for deadline, _ in self.rebalances.values()), default=NEVER),
        )


def _take_passed(deadlines: dict[str, int], now_ms: int) -> list[str]:
    passed = [member_id for member_id, deadline_ms in deadlines.items() if deadline_ms <= now_ms]
    for member_id in passed:
        del deadlines[member_id]
    return passed


class ConsumerGroup:
    """A group whose coordinator assigns; only `replay` changes what is stored of it."""

    __slots__ = (
        "assignor_votes",
        "classic_count",
        "classic_protocols",
        "deadlines",
        "epoch",
        "group_id",
        "has_topics_record",
        "is_released",
        "is_resolving",
        "match_failed_ms",
        "member_bytes",
        "members",
        "memory",
        "metadata_hash",
        "partition_epochs",
        "regex_subscribers",
        "resolved_regexes",
        "seen_topics",
        "static_members",
        "target_epoch",
        "target_timestamp_ms",
        "targets",
        "topics",
    )

    def __init__(self, group_id: str, memory: MemberMemory | None = None) -> None:
        self.group_id = group_id
        self.memory = memory or MemberMemory()
        self.member_bytes = 0
        """Bytes of `memory` that the members of this group use."""
        self.epoch = FIRST_EPOCH
        """Grows with every change that needs a new target assignment."""
        self.metadata_hash = 0
        """Hash of the subscribed topics when the epoch began."""
        self.target_epoch = FIRST_EPOCH
        """The epoch for which `targets` was computed."""
        self.target_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.targets: dict[str, Assignment] = {}
        self.partition_epochs: dict[Uuid, dict[int, int]] = {}
        """Topic id -> partition -> epoch of the member that owns it or must still revoke it."""
        self.topics: dict[str, Subscribers] = {}
        self.regex_subscribers: dict[str, int] = {}
        self.resolved_regexes: dict[str, ResolvedRegex] = {}
        self.assignor_votes: dict[str, int] = {}
        self.classic_count = 0
        self.classic_protocols: dict[str, int] = {}
        self.has_topics_record = False
        """A release before 4.1 has stored its topics; the next epoch deletes that record."""
        self.seen_topics = NOTHING_SEEN
        """`TopicDirectory.version` when the hash was last compared, and the epoch after it: they do
        not count if that epoch could not be stored."""
        self.is_resolving = False
        """The expressions are being matched against the topics."""
        self.match_failed_ms = NEVER_MATCHED
        """Wall time at which the matches could not be stored."""
        self.deadlines = Deadlines()
        self.is_released = False
        """The coordinator no longer uses this object."""

    @classmethod
    def upgraded(
        cls, group_id: str, generation: int, members: Iterable[tuple[ConsumerMember, Assignment]]
    ) -> ConsumerGroup:
        """A group that was classic, in the epoch of its generation.

        members  each with its target
        """
        group = cls(group_id)
        group.epoch = group.target_epoch = generation
        for member, target in members:
            group.put(member)
            group.put_target(member.member_id, target)
        return group

    # Queries.

    @property
    def state(self) -> ConsumerState:
        """Computed.

        cost  linear in the members that are reconciled
        """
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        for member in self.members.values():
            if not is_reconciled(member, self.target_epoch):
                return ConsumerState.RECONCILING
        return ConsumerState.STABLE

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member that has an instance id."""
        if instance_id is None:
            return None
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member: ConsumerMember) -> Assignment:
        """The member's target; a new static member inherits that of its instance id."""
        if member.instance_id is None:
            return self.targets.get(member.member_id, NOTHING)
        static_member_id = self.static_members.get(member.instance_id)
        return NOTHING if static_member_id is None else self.targets.get(static_member_id, NOTHING)

    def partition_epoch(self, topic_id: Uuid, partition: int) -> int:
        """The epoch of the member that has a partition, or -1."""
        return self.partition_epochs.get(topic_id, _NO_PARTITIONS).get(partition, NOT_OWNED)

    def waits_for_release(self, member: ConsumerMember) -> bool:
        """Whether another member still owns a partition of the member's target."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        for topic_id, partitions in self.targets.get(member.member_id, NOTHING).items():
            assigned = member.assigned_partitions.get(topic_id, _NO_PARTITIONS)
            for partition in partitions:
                if partition not in assigned and self.partition_epoch(topic_id, partition) != -1:
                    return True
        return False

    def preferred_assignor(self, default: str) -> str:
        """The assignor with most votes."""
        return most_votes(self.assignor_votes, default)

    def supports_classic(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether all classic members support one of the protocols."""
        if protocol_type != CONSUMER_PROTOCOL:
            return False
        return any(self.classic_protocols.get(name, 0) == self.classic_count for name in names)

    def are_others_classic(self, leaving: Mapping[str, ConsumerMember]) -> bool:
        """Whether without these members only classic ones are left."""
        classic = sum(member.classic is not None for member in leaving.values())
        return self.classic_count - classic == len(self.members) - len(leaving)

    # Changes.

    def put(self, member: ConsumerMember) -> None:
        """Add or replace a member."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._count_subscriptions(old, member)
        self._count_choices(old, -1)
        self._count_choices(member, 1)
        if old is not None:
            self._charge(old, -size_bytes(old))
        self._charge(member, size_bytes(member))
        self._disown(old)
        self._own(member.assigned_partitions, member.member_epoch)
        self._own(member.partitions_pending_revocation, member.member_epoch)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member."""
        old = self.members.pop(member_id)
        self._count_subscriptions(old, None)
        self._count_choices(old, -1)
        self._charge(old, -size_bytes(old))
        self._disown(old)
        if old.instance_id is not None:
            self.static_members.pop(old.instance_id, None)
        self.deadlines.remove(member_id)

    def _charge(self, member: ConsumerMember, more_bytes: int) -> None:
        self.member_bytes += more_bytes
        self.memory.charge(member.client_host, more_bytes)

    def share(self, memory: MemberMemory) -> None:
        """Charge the members to another memory from now on."""
        if self.memory is not memory:
            for member in self.members.values():
                memory.charge(member.client_host, size_bytes(member))
            self.memory = memory

    def release(self) -> None:
        """Release the memory of the members: the group is no longer used."""
        if not self.is_released:
            self.is_released = True
            for member in self.members.values():
                self._charge(member, -size_bytes(member))

    def begin_matching(self) -> None:
        """Note that the expressions are being matched."""
        self.is_resolving = True

    def end_matching(self) -> None:
        """Note that the expressions have been matched."""
        self.is_resolving = False

    def note_matching_failed(self, wall_ms: int) -> None:
        """Note that the matches could not be stored."""
        self.match_failed_ms = wall_ms

    def put_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Begin an epoch."""
        self.epoch = epoch
        self.metadata_hash = metadata_hash

    def put_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """Set the epoch for which the targets were computed, and when they were."""
        self.target_epoch = epoch
        self.target_timestamp_ms = timestamp_ms

    def put_topics_record(self, *, exists: bool) -> None:
        """Note whether a release before 4.1 has stored the group's topics."""
        self.has_topics_record = exists

    def note_seen_topics(self, version: int, epoch: int) -> None:
        """Note that the hash was compared, and the epoch after it."""
        self.seen_topics = (version, epoch)

    def put_target(self, member_id: str, target: Assignment) -> None:
        """Set a member's target."""
        self.targets[member_id] = target

    def remove_target(self, member_id: str) -> None:
        """Remove a member's target."""
        self.targets.pop(member_id, None)

    def put_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Set the topics that an expression matches; None removes the expression."""
        old = self.resolved_regexes.pop(regex, None)
        if resolved is not None:
            self.resolved_regexes[regex] = resolved
        if old is not None:
            subscribe(self.topics, old.topics, by_regex=-1)
        if resolved is not None:
            subscribe(self.topics, resolved.topics, by_regex=1)

    def _count_subscriptions(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        if old is not None:
            subscribe(self.topics, old.subscribed_topic_names, by_name=-1)
            if old.subscribed_topic_regex:
                count(self.regex_subscribers, old.subscribed_topic_regex, -1)
        if new is not None:
            subscribe(self.topics, new.subscribed_topic_names, by_name=1)
            if new.subscribed_topic_regex:
                count(self.regex_subscribers, new.subscribed_topic_regex, 1)

    def _count_choices(self, member: ConsumerMember | None, step: int) -> None:
        if member is None:
            return
        if member.server_assignor is not None:
            count(self.assignor_votes, member.server_assignor, step)
        if member.classic is not None:
            self.classic_count += step
            for name, _ in member.classic.protocols:
                count(self.classic_protocols, name, step)

    def _own(self, owned: OwnedPartitions, epoch: int) -> None:
        for topic_id, partitions in owned.items():
            epochs = self.partition_epochs.setdefault(topic_id, {})
            for partition in partitions:
                # In a compacted log the record of the next owner may precede that of the last one.
                owner_epoch = epochs.get(partition)
                if owner_epoch is None or owner_epoch < epoch:
                    epochs[partition] = epoch

    def _disown(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        for owned in (member.assigned_partitions, member.partitions_pending_revocation):
            for topic_id, partitions in owned.items():
                epochs = self.partition_epochs.get(topic_id)
                if epochs is None:
                    continue
                for partition in partitions:
                    if epochs.get(partition) == member.member_epoch:
                        del epochs[partition]
                if not epochs:
                    del self.partition_epochs[topic_id]

    def check(self) -> None:
        """Assert the invariants."""
        for instance_id, member_id in self.static_members.items():
            assert self.members[member_id].instance_id == instance_id, "instance ids name members"
        expected = ConsumerGroup(self.group_id)
        for member in self.members.values():
            expected.put(member)
        for regex, resolved in self.resolved_regexes.items():
            expected.put_regex(regex, resolved)
        for name in (
            "topics",
            "regex_subscribers",
            "assignor_votes",
            "classic_count",
            "classic_protocols",
            "member_bytes",
            "partition_epochs",
        ):
            assert getattr(self, name) == getattr(expected, name), (
                f"{name} are those of the members"
            )
        owners: dict[tuple[Uuid, int], str] = {}
        for member_id, target in self.targets.items():
            for topic_id, partitions in target.items():
                for partition in partitions:
                    owner = owners.setdefault((topic_id, partition), member_id)
                    assert owner == member_id, "a partition is in one target"


_NO_PARTITIONS: Final[Mapping[int, int]] = {}


def new_member(member_id: str) -> ConsumerMember:
    """A member before its first request.

    Its expression is empty instead of None, as Kafka stores it.
    """
    return ConsumerMember(member_id=member_id, subscribed_topic_regex="")


def size_bytes(member: ConsumerMember) -> int:
    """Estimated memory of what a client has sent.

    Without assignments, which the number of partitions bounds.
    """
    names = (member.member_id, member.client_id, member.instance_id or "", member.rack_id or "")
    texts = (*names, member.subscribed_topic_regex or "", *member.subscribed_topic_names)
    size = MEMBER_BYTES + sum(NAME_BYTES + len(text) for text in texts)
    return size + (0 if member.classic is None else protocols_bytes(member.classic.protocols))


def is_reconciled(member: ConsumerMember, target_epoch: int) -> bool:
    """Whether a member has its part of the target of the epoch."""
    return member.state is MemberState.STABLE and member.member_epoch == target_epoch


def count(counts: dict[str, int], name: str, step: int) -> None:
    """Add `step` to a count; counts of 0 are removed."""
    left = counts.get(name, 0) + step
    if left > 0:
        counts[name] = left
    else:
        counts.pop(name, None)


def subscribe(
    topics: dict[str, Subscribers], names: Iterable[str], *, by_name: int = 0, by_regex: int = 0
) -> None:
    """Add to the counts of topics; topics without subscribers are removed."""
    for name in names:
        subscribers = topics.get(name, _NO_SUBSCRIBERS)
        left = Subscribers(subscribers.by_name + by_name, subscribers.by_regex + by_regex)
        if left == _NO_SUBSCRIBERS:
            topics.pop(name, None)
        else:
            topics[name] = left


_NO_SUBSCRIBERS: Final = Subscribers()


def most_votes(votes: Mapping[str, int], default: str) -> str:
    """The name with most votes; of equal ones the first by name."""
    if not votes:
        return default
    return min(votes, key=lambda name: (-votes[name], name))
