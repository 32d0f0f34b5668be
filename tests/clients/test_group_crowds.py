"""Groups of many members, of many libraries, and many groups; and a broker that is killed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odradek.broker.group.limits import GroupLimits
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.compiler import encoder
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.clients.filling import Filling, commit
from tests.clients.libraries import GROUP_LIBRARIES
from tests.clients.members import Crew, Member, check_generations, owners, reads
from tests.support.broker_process import BrokerProcess
from tests.support.compacted import wait_until
from tests.support.wire import Wire, frame

PARTITIONS = 12
MIXES = (
    tuple(name for name in GROUP_LIBRARIES if name != "kafka-go"),
    # kafka-go names version 1 of its subscription and leaves out the field that came with it
    # (KIP-429); Java, librdkafka and kafka-python cannot decode that and cannot lead it.
    ("kafka-go", "franz-go", "sarama", "aiokafka", "kafkajs"),
)
MANY_MEMBERS = 20
MANY_GROUPS = 1_000
MEMBERS_BYTES_MAX = GroupLimits().members_bytes_max
JOINS_OF_TEN_MIB = 2 * MEMBERS_BYTES_MAX // (10 << 20)
FLOOD = 30_000
AT_ONCE = 1_000
BEFORE_ERROR_CODE = 8
"""Bytes before the error code of a JoinGroup response: correlation id and throttle time."""
MIB = 1 << 20
BYSTANDERS_SESSION_MS = 30_000
"""Longer than a busy machine keeps them from their heartbeats."""
NOT_LOADED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


@pytest.fixture
def filling(broker: BrokerProcess, topic: str) -> Filling:
    """An empty topic."""
    return Filling(broker.address, topic, PARTITIONS)


@pytest.mark.parametrize("libraries", MIXES)
def test_members_of_all_libraries_continue_after_the_broker_was_killed(
    broker: BrokerProcess, crowd: Crew, filling: Filling, libraries: tuple[str, ...]
) -> None:
    members = filling.gather(crowd, libraries)
    filling.add()
    filling.wait_until_committed(crowd, members)
    assert reads(members) == filling.places(), "every record is read once"
    filling.add()
    broker.kill()
    highest = dict.fromkeys(range(PARTITIONS), 0)
    for member in members:
        for number, offset in member.now.committed.items():
            highest[number] = max(highest[number], offset)
    broker.start()
    with Wire(broker.address) as wire:
        for number, offset in highest.items():
            assert stored_offset(wire, filling, number) >= offset, "no commit is lost"
    filling.add()
    filling.wait_until_committed(crowd, members)
    assert set(reads(members)) == set(filling.places()), "no record is left out"
    leader_to_be = members.pop(0)
    leader_to_be.kill()
    filling.wait_until_shared(crowd, members)
    assert check_generations(member.now for member in members)


def stored_offset(wire: Wire, filling: Filling, partition: int) -> int:
    """The committed offset; waits until the group is loaded."""
    asked = OffsetFetchRequest(
        group_id=filling.group,
        topics=[OffsetFetchRequestTopic(name=filling.topic, partition_indexes=[partition])],
    )
    response = until_loaded(lambda: wire.call(asked, 5))
    assert response.error_code == ErrorCode.NONE
    offset: int = response.topics[0].partitions[0].committed_offset
    return offset


def until_loaded(call: Callable[[], Any]) -> Any:
    """The first response of a coordinator that has loaded the group."""
    responses: list[Any] = []

    def is_loaded() -> bool:
        responses.append(call())
        return responses[-1].error_code not in NOT_LOADED

    wait_until("the end of the load", is_loaded)
    return responses[-1]


def test_twenty_members_on_twelve_partitions_leave_eight_idle(
    crowd: Crew, filling: Filling
) -> None:
    members = filling.gather(crowd, ["franz-go"] * MANY_MEMBERS)
    idle = [member for member in members if not member.now.owned]
    assert len(idle) == MANY_MEMBERS - PARTITIONS
    filling.add()
    filling.wait_until_committed(crowd, members)
    assert reads(members) == filling.places()
    for member in members:
        if member not in idle:
            member.kill()
    crowd.wait_until(
        lambda: owners(idle, PARTITIONS) == [1] * PARTITIONS, "the idle ones take over"
    )
    assert check_generations(member.now for member in members)


def test_thousand_groups_work_on_one_broker(broker: BrokerProcess, filling: Filling) -> None:
    filling.add(1)
    before_bytes = broker.process.rss_bytes()
    names = [f"{filling.topic}-{number}" for number in range(MANY_GROUPS)]
    with Wire(broker.address) as wire:
        members = {name: enter(wire, name, filling.topic) for name in names}
        for name, member_id in members.items():
            alive = HeartbeatRequest(group_id=name, generation_id=1, member_id=member_id)
            assert wire.call(alive, 3).error_code == ErrorCode.NONE
        described = wire.call(DescribeGroupsRequest(groups=names), 5).groups
        assert {(group.group_state, len(group.members)) for group in described} == {("Stable", 1)}
        assert broker.process.rss_bytes() - before_bytes < 24 * MIB
        broker.kill()
        broker.start()
    with Wire(broker.address) as wire:
        for name, member_id in members.items():
            assert only_member(wire, name) == member_id, "it is loaded as it was"


def only_member(wire: Wire, group: str) -> str:
    """The only member of a stable group; waits until the group is loaded."""
    request = DescribeGroupsRequest(groups=[group])
    described = until_loaded(lambda: wire.call(request, 5).groups[0])
    assert described.group_state == "Stable"
    (member,) = described.members
    return str(member.member_id)


def join(group: str, *, metadata: bytes = b"") -> JoinGroupRequest:
    """A JoinGroup request of a new member."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def enter(wire: Wire, group: str, topic: str) -> str:
    """Become the only member of a group, and commit; returns the member id."""
    joined = wire.call(join(group), 3)
    assert joined.error_code == ErrorCode.NONE
    member_id: str = joined.member_id
    given = [SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(40))]
    sync = SyncGroupRequest(group_id=group, generation_id=1, member_id=member_id, assignments=given)
    assert wire.call(sync, 3).error_code == ErrorCode.NONE
    own = commit(group, topic, generation_id_or_member_epoch=1, member_id=member_id)
    response = wire.call(own, 7)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
    return member_id


@pytest.fixture
def bystanders(crowd: Crew, filling: Filling) -> Iterator[list[Member]]:
    """A group that the load of the test must not affect."""
    libraries = ["confluent-kafka", "java-3.9.2"]
    members = filling.gather(crowd, libraries, session_ms=BYSTANDERS_SESSION_MS)
    filling.add()
    filling.wait_until_committed(crowd, members)
    noticed = [len(member.now.of_kind("assigned", "revoked", "lost")) for member in members]
    yield members
    filling.add()
    filling.wait_until_committed(crowd, members)
    assert reads(members) == filling.places()
    assert noticed == [
        len(member.now.of_kind("assigned", "revoked", "lost")) for member in members
    ], "no rebalance, and no member is removed"


@pytest.mark.usefixtures("bystanders")
def test_many_joins_without_a_member_id_use_little_memory_and_do_not_disturb_other_groups(
    broker: BrokerProcess,
) -> None:
    before_bytes = broker.process.rss_bytes()
    with Wire(broker.address) as wire:
        header = encode_request_header(ApiKey.JOIN_GROUP, 5, 1, "flood")
        request = frame(header + encoder(JoinGroupRequest, 5)(join("flooded")))
        for _ in range(FLOOD // AT_ONCE):
            wire.send_bytes(request * AT_ONCE)
            for _ in range(AT_ONCE):
                response = wire.receive_frame()
                (code,) = struct.unpack_from(">h", response, BEFORE_ERROR_CODE)
                assert code == ErrorCode.MEMBER_ID_REQUIRED
        assert broker.process.rss_bytes() - before_bytes < 44 * MIB
        described = wire.call(DescribeGroupsRequest(groups=["flooded"]), 5).groups[0]
        assert (described.error_code, described.members) == (ErrorCode.NONE, [])


@pytest.mark.usefixtures("bystanders")
def test_ten_megabytes_of_metadata_are_rejected_beyond_the_bound(
    broker: BrokerProcess, filling: Filling
) -> None:
    before_bytes = broker.process.rss_bytes()
    large = "x" * 32_767
    with Wire(broker.address) as wire:
        for _ in range(5):
            response = wire.call(commit("large", filling.topic, metadata=large), 8)
            code = response.topics[0].partitions[0].error_code
            assert code == ErrorCode.OFFSET_METADATA_TOO_LARGE
        members: dict[str, str] = {}
        for number in range(JOINS_OF_TEN_MIB):
            joined = wire.call(join(f"large-{number}", metadata=bytes(10 * MIB)), 3)
            assert joined.error_code == ErrorCode.NONE
            members[f"large-{number}"] = joined.member_id
            assert broker.process.rss_bytes() - before_bytes < MEMBERS_BYTES_MAX + 64 * MIB
        codes = []
        for group, member_id in members.items():
            leave = MemberIdentity(member_id=member_id)
            left = wire.call(LeaveGroupRequest(group_id=group, members=[leave]), 3)
            codes.append(left.members[0].error_code)
    # The oldest members without a complete join were removed for new ones.
    kept = codes.count(ErrorCode.NONE)
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID] * (len(codes) - kept) + [ErrorCode.NONE] * kept
    assert 0 < kept < JOINS_OF_TEN_MIB
    assert broker.process.rss_bytes() - before_bytes < 64 * MIB


@pytest.mark.usefixtures("bystanders")
def test_longest_names_work_in_a_group(broker: BrokerProcess, filling: Filling) -> None:
    group = "g" * 32_767
    with Wire(broker.address) as wire:
        member_id = enter(wire, group, filling.topic)
        alive = HeartbeatRequest(group_id=group, generation_id=1, member_id=member_id)
        assert wire.call(alive, 3).error_code == ErrorCode.NONE
        described = wire.call(DescribeGroupsRequest(groups=[group]), 5).groups[0]
        assert described.group_state == "Stable"
