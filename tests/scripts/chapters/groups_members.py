"""Members of groups, each with a connection of its own, and what is asked of their group."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack
from typing import Any, Final

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.compiler import encoder
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.schema import schema_of
from odradek.protocol.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from tests.scripts.normal import DRAWN_ID, UUID_IN_TEXT
from tests.scripts.talk import Talk

PATIENT_MS: Final = 60_000
"""A time-out that no chapter waits for."""
SILENCE_S: Final = 0.2
"""After it a request is taken to be forgotten."""
SHOWN: Final = 40
"""Characters of a group's id in the name of a step."""
CONSUMER: Final = "consumer"
UNKNOWN_ID: Final = "unknown-member"

Protocols = Sequence[tuple[str, bytes]]
NEWEST: Final = {
    JoinGroupRequest: 9,
    SyncGroupRequest: 5,
    HeartbeatRequest: 4,
    LeaveGroupRequest: 5,
    OffsetCommitRequest: 9,
    DescribeGroupsRequest: 5,
}
OLDEST: Final = {OffsetCommitRequest: 2}
DESCRIBE: Final = 5
OF_TODAY: Final = 9
"""A version of JoinGroup that has everything; each other API then comes in its newest."""


def subscription(*topics: str, version: int = 1) -> bytes:
    """What a consumer says in JoinGroup."""
    message = ConsumerProtocolSubscription(topics=list(topics), user_data=None)
    return pack(">h", version) + encoder(ConsumerProtocolSubscription, version)(message)


def share(topic: str, *partitions: int) -> bytes:
    """What the leader of a group gives to a consumer."""
    given = TopicPartition(topic=topic, partitions=list(partitions))
    assignment = ConsumerProtocolAssignment(assigned_partitions=[given])
    return pack(">h", 1) + encoder(ConsumerProtocolAssignment, 1)(assignment)


RANGE: Final = (("range", subscription("subscribed")),)
CHANGED: Final = (("range", subscription("subscribed", "more")),)


def version_of(request: Any, version: int) -> int:
    """The version of an API that goes with one of JoinGroup; commits before 2 are another story."""
    return max(min(version, NEWEST[type(request)]), OLDEST.get(type(request), 0))


class Member:
    """One that enters groups: `send` leaves the response to `collect`, `ask` waits for it."""

    def __init__(
        self,
        talk: Talk,
        group: str,
        name: str,
        *,
        version: int = OF_TODAY,
        instance_id: str | None = None,
        protocols: Protocols = RANGE,
        protocol_type: str = CONSUMER,
        session_timeout_ms: int = PATIENT_MS,
        rebalance_timeout_ms: int = PATIENT_MS,
    ) -> None:
        self.talk = talk
        self.group = group
        self.name = name
        self.version = version
        self.instance_id = instance_id
        self.protocols = protocols
        self.protocol_type = protocol_type
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = ""
        self.generation = -1
        self._wire = talk.connect()
        self._asked: tuple[int, int] | None = None

    # Requests.

    def join(self, **changes: Any) -> JoinGroupRequest:
        """Enter, with the id that it has."""
        values: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocols": [
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in self.protocols
            ],
        }
        return JoinGroupRequest(**(values | changes))

    def sync(self, *assigned: tuple[Member, bytes], **changes: Any) -> SyncGroupRequest:
        """Ask for the assignment, or as the leader bring it."""
        values: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocols[0][0],
            "assignments": [
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=assignment)
                for member, assignment in assigned
            ],
        }
        return SyncGroupRequest(**(values | changes))

    def heartbeat(self, **changes: Any) -> HeartbeatRequest:
        """A heartbeat."""
        values: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        return HeartbeatRequest(**(values | changes))

    def leave(self, **changes: Any) -> LeaveGroupRequest:
        """It goes."""
        return leave(self.group, (self.member_id, self.instance_id), **changes)

    def commit(self, topic: str, offset: int, **changes: Any) -> OffsetCommitRequest:
        """How far it has come in partition 0."""
        values: dict[str, Any] = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "topics": [
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=offset, committed_metadata=self.name
                        )
                    ],
                )
            ],
        }
        return OffsetCommitRequest(**(values | changes))

    # The connection.

    def send(self, request: Any) -> None:
        """Leave the response to `collect`."""
        assert self._asked is None, f"{self.name} waits for a response already"
        key = schema_of(type(request)).api_key
        assert key is not None, type(request).__name__
        version = version_of(request, self.version)
        self._wire.send(request, version)
        self._asked = key, version

    def receive(self) -> tuple[Any, int, int]:
        """What came: the response, its API and version; a new id gets this member's name."""
        assert self._asked is not None, f"{self.name} has asked nothing"
        key, version = self._asked
        response = self._wire.receive(key, version)
        self._asked = None
        if key == ApiKey.JOIN_GROUP:
            self._joined(response)
        return response, key, version

    def _joined(self, response: Any) -> None:
        if response.member_id and response.error_code in (0, 79):
            self.member_id = response.member_id
            match = DRAWN_ID.search(response.member_id) or UUID_IN_TEXT.fullmatch(
                response.member_id
            )
            if match is not None and ("member", match[0]) not in self.talk.masks.names:
                self.talk.masks.give("member", match[0], f"{self.name} of {self.group[:SHOWN]}")
        if not response.error_code:
            self.generation = response.generation_id

    def ask(self, label: str, request: Any) -> Any:
        """Ask, wait, write down."""
        self.send(request)
        (response,) = collect(label, self)
        return response

    def quiet(self, request: Any) -> Any:
        """Ask and wait without writing down."""
        self.send(request)
        return self.receive()[0]

    def obtain_id(self) -> None:
        """Get an id, where a version wants that first."""
        if self.version >= 4 and self.instance_id is None:
            assert self.quiet(self.join()).error_code == 79, "a new member gets its id"

    def is_forgotten(self) -> bool:
        """Whether no response comes to what was sent."""
        return self._wire.is_silent(SILENCE_S)


def collect(label: str, *members: Member) -> list[Any]:
    """Wait for the responses of all, whatever their order, then write them down in this one."""
    try:
        received = [member.receive() for member in members]
    except TimeoutError:
        raise AssertionError(f"no response to {label!r} of {members[0].group[:SHOWN]}") from None
    for member, (response, key, version) in zip(members, received, strict=True):
        who = f"{label}: {member.name}" if len(members) > 1 else label
        step = f"{member.group[:SHOWN]}: {who}, {ApiKey(key).name} v{version}"
        member.talk.write_response(step, response, version)
    return [response for response, _, _ in received]


def leave(group: str, *who: tuple[str, str | None], **changes: Any) -> LeaveGroupRequest:
    """Some go, as the fields of all versions say it."""
    values: dict[str, Any] = {
        "group_id": group,
        "member_id": who[0][0] if who else "",
        "members": [
            MemberIdentity(member_id=member_id, group_instance_id=instance_id)
            for member_id, instance_id in who
        ],
    }
    return LeaveGroupRequest(**(values | changes))


def describe(talk: Talk, label: str, *groups: str, version: int = DESCRIBE) -> None:
    """Write down how groups stand."""
    talk.ask(label, DescribeGroupsRequest(groups=list(groups)), version)


def wait_for(talk: Talk, group: str, state: str, members: int | None = None) -> None:
    """Until the group stands so: requests on several connections have no order otherwise."""
    talk.until(
        f"{state} of group {group}",
        lambda: talk.quiet(DescribeGroupsRequest(groups=[group]), DESCRIBE).groups[0],
        lambda seen: seen.group_state == state and members in (None, len(seen.members)),
    )


def wait_for_coordinator(talk: Talk) -> None:
    """The topic of the coordinators is made when the first one is asked for."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["any-key"])
    talk.until(
        "a coordinator of groups",
        lambda: talk.quiet(request, 4).coordinators[0].error_code,
        lambda code: bool(code == 0),
    )
    talk.until(
        "groups that are loaded",
        lambda: talk.quiet(DescribeGroupsRequest(groups=list("abcdefghijklmnop")), DESCRIBE),
        lambda response: not any(group.error_code for group in response.groups),
    )


def stable(
    talk: Talk, *members: Member, label: str | None = None, shares: Sequence[bytes] = ()
) -> None:
    """All enter and are assigned their shares, else `share of NAME`; the first one leads.

    label  write the responses down as it calls them
    """
    leader = members[0]
    leader.obtain_id()
    first = leader.quiet(leader.join())
    assert first.error_code == 0, first
    for number, member in enumerate(members[1:], start=2):
        member.obtain_id()
        member.send(member.join())
        wait_for(talk, member.group, "PreparingRebalance", number)
    if len(members) > 1:
        leader.send(leader.join())
        _gather(members, label and f"{label}: joined")
    for member in members[1:]:
        member.send(member.sync())
    given = shares or [f"share of {member.name}".encode() for member in members]
    leader.send(leader.sync(*zip(members, given, strict=True)))
    _gather(members, label and f"{label}: assigned")


def _gather(members: Sequence[Member], label: str | None) -> None:
    if label:
        collect(label, *members)
        return
    for member in members:
        response, _, _ = member.receive()
        assert response.error_code == 0, response
