"""A group of the new protocol in memory: members, target and current assignments, who owns what.

Pure.  Everything but the deadlines and the marks of what was looked at last is told by the group's
records: only `replay` changes it, when a record was appended and when a log is read, so a group
that is read anew is the group that wrote.

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

from odradek.broker.group.classic.state import MEMBER_BYTES, protocols_bytes
from odradek.broker.group.consumer.model import (
    NOTHING,
    Assignment,
    ConsumerMember,
    MemberState,
    OwnedPartitions,
)
from odradek.broker.group.limits import Memory

NEVER: Final = 2**63 - 1
NAME_BYTES: Final = 60
"""Of a text without its characters."""
FIRST_EPOCH: Final = 1
"""Of a group without records, and of its target."""
NO_TARGET_EPOCH: Final = -1
"""After the target's deletion, which precedes that of the group."""
NOT_OWNED: Final = -1
NEVER_MATCHED: Final = -(2**63)
NOTHING_SEEN: Final = (-1, 0)
LEAVE_EPOCH: Final = -1
LEAVE_FOR_A_WHILE_EPOCH: Final = -2
"""Of a static member that is expected back."""


class ConsumerState(StrEnum):
    """As ConsumerGroupDescribe and ListGroups spell them."""

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
    """Of the topics' names that were looked at."""
    timestamp_ms: int


class Subscribers(NamedTuple):
    """Why a group is subscribed to a topic."""

    by_name: int = 0
    """Members that name it."""
    by_regex: int = 0
    """Resolved expressions that match it."""


class Deadlines:
    """Until when members are waited for; not stored, begun anew by a coordinator that loads.

    sessions    until the next sign of life
    rebalances  until the member has given up what it must, and the epoch it is in until then
    joins       until a classic member, which was told to, joins again
    syncs       until a classic member, which has joined, asks for its assignment
    """

    __slots__ = ("joins", "rebalances", "sessions", "syncs", "wake_ms")

    def __init__(self) -> None:
        self.sessions: dict[str, int] = {}
        self.rebalances: dict[str, tuple[int, int]] = {}
        self.joins: dict[str, int] = {}
        self.syncs: dict[str, int] = {}
        self.wake_ms = NEVER
        """No deadline lies before it."""

    def _wake(self, deadline_ms: int) -> None:
        if deadline_ms < self.wake_ms:
            self.wake_ms = deadline_ms

    def touch(self, member_id: str, deadline_ms: int) -> None:
        """The member's session ends then, not before."""
        self.sessions[member_id] = deadline_ms
        self._wake(deadline_ms)

    def await_revocation(self, member_id: str, deadline_ms: int, epoch: int) -> None:
        """The member must have left the epoch by then."""
        self.rebalances[member_id] = (deadline_ms, epoch)
        self._wake(deadline_ms)

    def await_join(self, member_id: str, deadline_ms: int) -> None:
        """The member must have joined by then, or earlier if that was said before."""
        self._wake(self.joins.setdefault(member_id, deadline_ms))

    def await_sync(self, member_id: str, deadline_ms: int) -> None:
        """The member must have asked for its assignment by then."""
        self.syncs[member_id] = deadline_ms
        self._wake(deadline_ms)

    def forget(self, member_id: str) -> None:
        """The member is gone."""
        self.sessions.pop(member_id, None)
        self.rebalances.pop(member_id, None)
        self.joins.pop(member_id, None)
        self.syncs.pop(member_id, None)

    def settle(self) -> None:
        """Find the least deadline anew; looks at all."""
        waits = (self.sessions, self.joins, self.syncs)
        self.wake_ms = min(
            *(min(one.values(), default=NEVER) for one in waits),
            min((deadline for deadline, _ in self.rebalances.values()), default=NEVER),
        )


class ConsumerGroup:
    """One group of the new protocol; only `replay` changes what is stored of it."""

    __slots__ = (
        "assignor_votes",
        "classic_count",
        "classic_protocols",
        "deadlines",
        "epoch",
        "group_id",
        "has_topics_record",
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

    def __init__(self, group_id: str, memory: Memory | None = None) -> None:
        self.group_id = group_id
        self.memory = memory or Memory()
        self.member_bytes = 0
        """Its own part of `memory`."""
        self.epoch = FIRST_EPOCH
        """Grows with every change that calls for another assignment."""
        self.metadata_hash = 0
        """Of the subscribed topics when the epoch began."""
        self.target_epoch = FIRST_EPOCH
        """The epoch whose target `targets` is."""
        self.target_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.targets: dict[str, Assignment] = {}
        self.partition_epochs: dict[Uuid, dict[int, int]] = {}
        """Topic id -> partition -> epoch of the member that has it or must still revoke it."""
        self.topics: dict[str, Subscribers] = {}
        self.regex_subscribers: dict[str, int] = {}
        self.resolved_regexes: dict[str, ResolvedRegex] = {}
        self.assignor_votes: dict[str, int] = {}
        self.classic_count = 0
        self.classic_protocols: dict[str, int] = {}
        self.has_topics_record = False
        """A release before 4.1 has stored its topics, which the next change of them deletes."""
        self.seen_topics = NOTHING_SEEN
        """Version of the topics when the hash was last compared, and the group's epoch then: an
        epoch that could not be stored was not seen."""
        self.is_resolving = False
        """Expressions are about to be matched against the topics."""
        self.match_failed_ms = NEVER_MATCHED
        """Wall time at which what they match could not be stored."""
        self.deadlines = Deadlines()

    # Questions.

    @property
    def state(self) -> ConsumerState:
        """Derived; looks at the members until one is not reconciled."""
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
        """What a member shall have; one that replaces a static member inherits."""
        if member.instance_id is None:
            return self.targets.get(member.member_id, NOTHING)
        known = self.static_members.get(member.instance_id)
        return NOTHING if known is None else self.targets.get(known, NOTHING)

    def partition_epoch(self, topic_id: Uuid, partition: int) -> int:
        """The epoch of the member that has a partition, or -1."""
        return self.partition_epochs.get(topic_id, _NO_PARTITIONS).get(partition, NOT_OWNED)

    def waits_for_release(self, member: ConsumerMember) -> bool:
        """Whether somebody else still has what the member shall have."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        for topic_id, partitions in self.targets.get(member.member_id, NOTHING).items():
            assigned = member.assigned_partitions.get(topic_id, _NO_PARTITIONS)
            for partition in partitions:
                if partition not in assigned and self.partition_epoch(topic_id, partition) != -1:
                    return True
        return False

    def preferred_assignor(self, default: str) -> str:
        """The one that most members ask for."""
        return most_votes(self.assignor_votes, default)

    def supports_classic(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether all classic members know one of the protocols."""
        if protocol_type != CONSUMER_PROTOCOL:
            return False
        return any(self.classic_protocols.get(name, 0) == self.classic_count for name in names)

    def are_others_classic(self, leaving: Mapping[str, ConsumerMember]) -> bool:
        """Whether without these members only classic ones are left."""
        classic = sum(one.classic is not None for one in leaving.values())
        return self.classic_count - classic == len(self.members) - len(leaving)

    # Changes, by `replay` only.

    def put(self, member: ConsumerMember) -> None:
        """A member came or changed."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._count_subscriptions(old, member)
        self._count_choices(old, -1)
        self._count_choices(member, 1)
        if old is not None:
            self._weigh(old, -size_bytes(old))
        self._weigh(member, size_bytes(member))
        self._disown(old)
        self._own(member.assigned_partitions, member.member_epoch)
        self._own(member.partitions_pending_revocation, member.member_epoch)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """A member is gone."""
        old = self.members.pop(member_id)
        self._count_subscriptions(old, None)
        self._count_choices(old, -1)
        self._weigh(old, -size_bytes(old))
        self._disown(old)
        if old.instance_id is not None:
            self.static_members.pop(old.instance_id, None)
        self.deadlines.forget(member_id)

    def _weigh(self, member: ConsumerMember, more_bytes: int) -> None:
        self.member_bytes += more_bytes
        self.memory.charge(member.client_host, more_bytes)

    def share(self, memory: Memory) -> None:
        """Its members take a part of this memory from now on."""
        if self.memory is not memory:
            for member in self.members.values():
                memory.charge(member.client_host, size_bytes(member))
            self.memory = memory

    def forget(self) -> None:
        """The group is dropped with its members: their memory is free."""
        for member in self.members.values():
            self._weigh(member, -size_bytes(member))

    def put_target(self, member_id: str, target: Assignment) -> None:
        """What a member shall have."""
        self.targets[member_id] = target

    def remove_target(self, member_id: str) -> None:
        """A member shall have nothing."""
        self.targets.pop(member_id, None)

    def put_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """What an expression matches, or with None that nobody asks any more."""
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
                # A log that was compacted may tell of the next owner before the last one let go.
                known = epochs.get(partition)
                if known is None or known < epoch:
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
        """Assert the invariants; for tests."""
        for instance_id, member_id in self.static_members.items():
            assert self.members[member_id].instance_id == instance_id, "instance ids name members"
        anew = ConsumerGroup(self.group_id)
        for member in self.members.values():
            anew.put(member)
        for regex, resolved in self.resolved_regexes.items():
            anew.put_regex(regex, resolved)
        for name in (
            "topics",
            "regex_subscribers",
            "assignor_votes",
            "classic_count",
            "classic_protocols",
            "member_bytes",
            "partition_epochs",
        ):
            assert getattr(self, name) == getattr(anew, name), f"{name} are the members'"
        given: dict[tuple[Uuid, int], str] = {}
        for member_id, target in self.targets.items():
            for topic_id, partitions in target.items():
                for partition in partitions:
                    owner = given.setdefault((topic_id, partition), member_id)
                    assert owner == member_id, "a partition is in one target"


CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of classic members that can be told what partitions they have."""
_NO_PARTITIONS: Final[Mapping[int, int]] = {}


def new_member(member_id: str) -> ConsumerMember:
    """A member before it has said anything; Kafka stores that it has no expression as an empty
    one."""
    return ConsumerMember(member_id=member_id, subscribed_topic_regex="")


def size_bytes(member: ConsumerMember) -> int:
    """About what a member keeps in memory of what its client sent; assignments are bounded by the
    topics that there are."""
    names = (member.member_id, member.client_id, member.instance_id or "", member.rack_id or "")
    texts = (*names, member.subscribed_topic_regex or "", *member.subscribed_topic_names)
    size = MEMBER_BYTES + sum(NAME_BYTES + len(text) for text in texts)
    return size + (0 if member.classic is None else protocols_bytes(member.classic.protocols))


def is_reconciled(member: ConsumerMember, target_epoch: int) -> bool:
    """Whether a member has what the target of the epoch gives it."""
    return member.state is MemberState.STABLE and member.member_epoch == target_epoch


def count(counts: dict[str, int], name: str, step: int) -> None:
    """Add to a count; those that come to nothing are not kept."""
    left = counts.get(name, 0) + step
    if left > 0:
        counts[name] = left
    else:
        counts.pop(name, None)


def subscribe(
    topics: dict[str, Subscribers], names: Iterable[str], *, by_name: int = 0, by_regex: int = 0
) -> None:
    """Add to the counts of topics; those that nobody subscribes to are not kept."""
    for name in names:
        known = topics.get(name, _NOBODY)
        left = Subscribers(known.by_name + by_name, known.by_regex + by_regex)
        if left == _NOBODY:
            topics.pop(name, None)
        else:
            topics[name] = left


_NOBODY: Final = Subscribers()


def most_votes(votes: Mapping[str, int], default: str) -> str:
    """What most members ask for; of equal ones the first by name."""
    if not votes:
        return default
    return min(votes, key=lambda name: (-votes[name], name))
