"""Groups of a real broker under bad input: the right error, and memory that stays bounded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.wire import Wire

LONGEST = "g" * 32_767
MIB = 1 << 20
MANY = 5_000
AT_ONCE = 50


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    overrides = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
    with odradek_broker(tmp_path_factory.mktemp("groups"), overrides=overrides) as running:
        with Wire(running.address) as wire:
            made = CreatableTopic(
                name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[]
            )
            wire.call(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 5)
            # The topic is made when it is first asked for; its partitions take a moment.
            asked = FindCoordinatorRequest(key="g", key_type=0)
            codes = (wire.call(asked, 3).error_code for _ in range(10_000))
            assert ErrorCode.NONE in codes
        yield running


@pytest.fixture
def wire(broker: BrokerProcess) -> Iterator[Wire]:
    with Wire(broker.address) as connected:
        yield connected


def join(group: str, metadata: bytes = b"", member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=6_000,
        rebalance_timeout_ms=6_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def commit(group: str, metadata: str | None = None) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_metadata=metadata
    )
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    return OffsetCommitRequest(group_id=group, topics=[topic])


def test_group_with_the_longest_id_is_served(wire: Wire) -> None:
    response = wire.call(commit(LONGEST), 2).topics[0].partitions[0]
    assert response.error_code == ErrorCode.NONE
    asked = OffsetFetchRequest(
        group_id=LONGEST, topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    )
    assert wire.call(asked, 5).topics[0].partitions[0].committed_offset == 5
    required = wire.call(join(LONGEST), 5)
    assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert wire.call(join(LONGEST, member_id=required.member_id), 5).generation_id == 1


@pytest.mark.parametrize("retention_ms", [2**63 - 1, -(2**63)])
def test_commit_with_any_retention_time_is_accepted(wire: Wire, retention_ms: int) -> None:
    group = f"retained for {retention_ms}"
    request = commit(group)
    request.retention_time_ms = retention_ms
    assert wire.call(request, 2).topics[0].partitions[0].error_code == ErrorCode.NONE
    gone = wire.call(DeleteGroupsRequest(groups_names=[group]), 2).results[0]
    assert gone.error_code == ErrorCode.NONE


def test_thousands_of_groups_are_deleted_while_others_are_served(
    broker: BrokerProcess, wire: Wire
) -> None:
    names = [f"one of many {number}" for number in range(MANY)]
    for begin in range(0, MANY, AT_ONCE):
        # The broker reads on while responses wait: so many at a time fit its queue.
        some = names[begin : begin + AT_ONCE]
        for name in some:
            wire.send(commit(name), 2)
        for _ in some:
            wire.receive_frame()
    with Wire(broker.address) as other:
        wire.send(DeleteGroupsRequest(groups_names=[*names, "never seen", names[0]]), 2)
        served = 0
        while wire.is_silent(0):
            other.call(ApiVersionsRequest(), 0)
            served += 1
    results = wire.receive(ApiKey.DELETE_GROUPS, 2).results
    assert {result.group_id: result.error_code for result in results} == {
        **dict.fromkeys(names, ErrorCode.NONE),
        "never seen": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert served > MANY / 1_000, "otherwise no other request had been served"
    again = wire.call(DeleteGroupsRequest(groups_names=names), 2).results
    assert {result.error_code for result in again} == {ErrorCode.GROUP_ID_NOT_FOUND}


def test_metadata_of_ten_megabytes_cannot_be_stored(broker: BrokerProcess, wire: Wire) -> None:
    joined = wire.call(join("large", bytes(10 * MIB)), 3)
    assert joined.error_code == ErrorCode.NONE
    member = joined.member_id
    synced = wire.call(
        SyncGroupRequest(
            group_id="large",
            generation_id=1,
            member_id=member,
            assignments=[SyncGroupRequestAssignment(member_id=member, assignment=b"a")],
        ),
        2,
    )
    assert synced.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    left = wire.call(
        LeaveGroupRequest(group_id="large", members=[MemberIdentity(member_id=member)]), 3
    )
    assert left.members[0].error_code == ErrorCode.NONE
    response = wire.call(commit("large", "x" * 4_097), 2).topics[0].partitions[0]
    assert response.error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_flood_of_joins_without_a_member_id_takes_bounded_memory(
    broker: BrokerProcess, wire: Wire
) -> None:
    before_bytes = broker.process.rss_bytes()
    for number in range(1_600):
        response = wire.call(join(f"{number}{LONGEST[:32_000]}"), 4)
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert broker.process.rss_bytes() - before_bytes < 44 * MIB
