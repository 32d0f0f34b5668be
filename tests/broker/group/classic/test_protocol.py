"""The classic group protocol, event by event."""

from __future__ import annotations

from typing import TypedDict

import pytest

from odradek.broker.group.classic.events import LeavingMember
from odradek.broker.group.classic.state import TRANSITIONS, GroupState
from odradek.broker.group.limits import GroupLimits
from odradek.protocol.errors import ErrorCode
from tests.broker.group.classic.conversation import REBALANCE_MS, SESSION_MS, Conversation
from tests.broker.group.classic.transitions import NEXT_STATES, Event

NONE = ErrorCode.NONE


class Changes(TypedDict, total=False):
    """How a JoinGroup differs from the others."""

    protocols: tuple[tuple[str, bytes], ...]
    protocol_type: str


def state_of(talk: Conversation) -> GroupState:
    """The state now: a call, because a type checker takes an attribute for unchanged."""
    return talk.group.state


def test_every_state_can_be_reached_and_every_event_has_a_row() -> None:
    reached = {GroupState.EMPTY}
    for _ in GroupState:
        reached |= {after for before in reached for after in TRANSITIONS[before]}
    assert reached == set(GroupState)
    assert list(NEXT_STATES) == list(Event)
    for row in NEXT_STATES.values():
        assert list(row) == list(GroupState)


def test_first_member_leads_generation_one() -> None:
    talk = Conversation()
    response = talk.joined[talk.join()]
    assert (response.error, response.generation, response.leader) == (NONE, 1, response.member_id)
    assert (response.protocol_type, response.protocol) == ("consumer", "range")
    assert [member.member_id for member in response.members] == [response.member_id]
    assert talk.group.state is GroupState.COMPLETING


def test_join_of_a_new_member_returns_its_id_first() -> None:
    talk = Conversation()
    joined = talk.joined[talk.join(is_member_id_required=True)]
    assert joined.error is ErrorCode.MEMBER_ID_REQUIRED
    assert joined.member_id == "m1"
    assert talk.group.state is GroupState.EMPTY
    assert talk.joined[talk.join("m1")].generation == 1


def test_id_that_is_not_used_within_the_session_is_forgotten() -> None:
    talk = Conversation()
    talk.join(is_member_id_required=True)
    talk.wait(SESSION_MS)
    assert not talk.group.pending
    assert talk.joined[talk.join("m1")].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_rebalance_waits_for_ids_that_were_given_out() -> None:
    talk = Conversation()
    (leader,) = talk.stable()
    talk.join(is_member_id_required=True)
    ticket = talk.join(leader)
    assert ticket in talk.open
    talk.wait(SESSION_MS - 1)
    assert ticket in talk.open
    talk.wait(1)
    assert talk.joined[ticket].generation == 2


def test_empty_group_waits_longer_while_new_members_come() -> None:
    talk = Conversation(GroupLimits(initial_delay_ms=3_000))
    first = talk.join()
    talk.wait(2_000)
    second = talk.join()
    talk.wait(2_000)
    assert first in talk.open
    talk.wait(2_000)
    assert talk.joined[first].generation == talk.joined[second].generation == 1
    assert len(talk.joined[first].members) == 2
    assert not talk.joined[second].members


def test_initial_delay_ends_with_the_rebalance_timeout() -> None:
    talk = Conversation(GroupLimits(initial_delay_ms=3_000))
    first = talk.join(rebalance_timeout_ms=5_000)
    for _ in range(4):
        talk.wait(1_000)
        talk.join(rebalance_timeout_ms=5_000)
    assert first in talk.open
    talk.wait(1_000)
    assert len(talk.joined[first].members) == 5


def test_sync_of_the_leader_returns_its_assignment_to_every_member() -> None:
    talk = Conversation()
    leader, follower = talk.stable(2)
    responses = [talk.synced[talk.sync(name)] for name in (leader, follower)]
    assert [response.assignment for response in responses] == [
        f"share of {name}".encode() for name in (leader, follower)
    ]
    assert {(response.protocol_type, response.protocol) for response in responses} == {
        ("consumer", "range")
    }


def test_member_without_an_assignment_of_the_leader_gets_an_empty_one() -> None:
    talk = Conversation()
    leader, follower = talk.stable(2)
    tickets = [talk.join(follower, protocols=(("range", b"changed"),)), talk.join(leader)]
    waiting = talk.sync(talk.joined[tickets[0]].member_id)
    assert waiting in talk.open
    talk.sync(talk.joined[tickets[1]].member_id, assignments=((leader, b"all"),))
    assert talk.synced[waiting].assignment == b""


def test_sync_waits_until_the_assignment_is_stored() -> None:
    talk = Conversation(stores_at_once=False)
    response = talk.joined[talk.join()]
    ticket = talk.sync(response.member_id, assignments=((response.member_id, b"all"),))
    assert ticket in talk.open
    (store,) = talk.stores
    assert [member.assignment for member in store.value.members] == [b"all"]
    talk.store()
    assert talk.synced[ticket].assignment == b"all"


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_assignment_that_cannot_be_stored_begins_a_rebalance(
    failure: ErrorCode, error: ErrorCode
) -> None:
    talk = Conversation(stores_at_once=False)
    member = talk.joined[talk.join()].member_id
    ticket = talk.sync(member, assignments=((member, b"all"),))
    talk.store(failure)
    assert talk.synced[ticket].error is error
    assert talk.group.state is GroupState.PREPARING


def test_members_vote_for_the_first_protocol_that_all_know() -> None:
    talk = Conversation()
    first = talk.joined[talk.join(protocols=(("a", b""), ("b", b""), ("c", b"")))].member_id
    second = talk.join(protocols=(("c", b""), ("b", b"")))
    third = talk.join(protocols=(("d", b""), ("c", b""), ("b", b"")))
    again = talk.join(first, protocols=(("a", b""), ("b", b""), ("c", b"")))
    assert {talk.joined[ticket].protocol for ticket in (again, second, third)} == {"c"}


@pytest.mark.parametrize(
    "changes", [{"protocols": ()}, {"protocols": (("other", b""),)}, {"protocol_type": "connect"}]
)
def test_join_without_a_common_protocol_is_refused(changes: Changes) -> None:
    talk = Conversation()
    talk.stable()
    response = talk.joined[talk.join(**changes)]
    assert response.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_join_of_an_unchanged_follower_returns_the_generation_without_a_rebalance() -> None:
    talk = Conversation()
    _, follower = talk.stable(2)
    response = talk.joined[talk.join(follower)]
    assert (response.error, response.generation, response.members) == (
        NONE,
        talk.group.generation,
        (),
    )
    assert talk.group.state is GroupState.STABLE


def test_leader_that_asks_again_begins_a_rebalance() -> None:
    talk = Conversation()
    leader, follower = talk.stable(2)
    ticket = talk.join(leader)
    assert ticket in talk.open
    assert talk.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
    talk.join(follower)
    assert talk.joined[ticket].generation == 3


def test_member_that_does_not_rejoin_in_time_is_removed_and_another_leads() -> None:
    talk = Conversation()
    leader, follower = talk.stable(2, session_timeout_ms=1_000_000)
    ticket = talk.join(follower, protocols=(("range", b"changed"),))
    talk.wait(REBALANCE_MS)
    response = talk.joined[ticket]
    assert response.leader == follower
    assert [member.member_id for member in response.members] == [follower]
    assert talk.heartbeat(leader) is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_without_heartbeats_expires_and_one_with_heartbeats_stays() -> None:
    talk = Conversation()
    leader, follower = talk.stable(2)
    for _ in range(10):
        talk.wait(SESSION_MS // 2)
        talk.heartbeat(leader)
    assert list(talk.group.members) == [leader]
    assert follower not in talk.group.members


def test_members_that_never_sync_are_removed() -> None:
    talk = Conversation()
    member = talk.joined[talk.join(session_timeout_ms=1_000_000)].member_id
    for _ in range(2):
        talk.wait(REBALANCE_MS // 2)
        talk.heartbeat(member)
    assert talk.group.state is GroupState.EMPTY
    assert talk.group.generation == 2


def test_new_member_waits_five_minutes_and_not_longer() -> None:
    talk = Conversation()
    talk.stable(1, session_timeout_ms=2_000_000, rebalance_timeout_ms=2_000_000)
    ticket = talk.join()
    talk.wait(299_999)
    assert ticket in talk.open
    talk.wait(1)
    assert talk.joined[ticket].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_leave_begins_a_rebalance_and_the_last_one_empties_the_group() -> None:
    talk = Conversation()
    leader, follower = talk.stable(2)
    assert talk.leave(LeavingMember(leader, None)) == [NONE]
    assert state_of(talk) is GroupState.PREPARING
    assert talk.leave(LeavingMember(follower, None)) == [NONE]
    assert state_of(talk) is GroupState.EMPTY
    assert talk.group.leader is None


def test_leave_returns_an_error_for_each_member() -> None:
    talk = Conversation()
    talk.stable(1, instance_id="i")
    talk.join(is_member_id_required=True)
    assert talk.leave(
        LeavingMember("unknown", None),
        LeavingMember("", "j"),
        LeavingMember("", None),
        LeavingMember("m1x", "i"),
        LeavingMember("m2", None),
        LeavingMember("", "i"),
    ) == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        NONE,
        NONE,
    ]


def test_leave_during_the_sync_returns_rebalance_in_progress_to_waiting_members() -> None:
    talk = Conversation()
    leader, follower = talk.stable(2)
    tickets = [talk.join(follower, protocols=(("range", b"new"),)), talk.join(leader)]
    assert all(ticket in talk.joined for ticket in tickets)
    waiting = talk.sync(follower)
    talk.leave(LeavingMember(leader, None))
    assert talk.synced[waiting].error is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol": "roundrobin"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_refused_sync_returns_its_error(changes: dict[str, object], error: ErrorCode) -> None:
    talk = Conversation()
    (member,) = talk.stable()
    fields = {"member_id": member, **changes}
    assert talk.synced[talk.sync(**fields)].error is error  # type: ignore[arg-type]


def test_join_beyond_group_max_size_is_refused() -> None:
    talk = Conversation(GroupLimits(initial_delay_ms=0, members_max=2))
    talk.stable(2)
    assert talk.joined[talk.join()].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert talk.group.state is GroupState.STABLE


def test_static_member_returns_without_a_rebalance() -> None:
    talk = Conversation()
    (old,) = talk.stable(1, instance_id="i")
    response = talk.joined[talk.join(instance_id="i")]
    assert response.error is NONE
    assert response.member_id != old
    assert response.skip_assignment
    assert response.leader == response.member_id
    assert talk.group.state is GroupState.STABLE
    assert talk.synced[talk.sync(response.member_id)].assignment == f"share of {old}".encode()
    assert talk.heartbeat(old, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert talk.joined[talk.join(old, instance_id="i")].error is ErrorCode.FENCED_INSTANCE_ID


def test_join_of_a_static_leader_before_v9_returns_its_former_id_as_leader() -> None:
    talk = Conversation()
    (old,) = talk.stable(1, instance_id="i")
    response = talk.joined[talk.join(instance_id="i", may_skip_assignment=False)]
    assert (response.leader, response.members, response.skip_assignment) == (old, (), False)


def test_static_member_whose_return_cannot_be_stored_is_what_it_was() -> None:
    talk = Conversation()
    (old,) = talk.stable(1, instance_id="i")
    talk.stores_at_once = False
    ticket = talk.join(instance_id="i", session_timeout_ms=7_000)
    talk.store(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert talk.joined[ticket].error is ErrorCode.NOT_COORDINATOR
    assert list(talk.group.members) == [old]
    assert talk.group.members[old].session_timeout_ms == SESSION_MS


def test_static_member_that_returns_during_a_rebalance_fences_its_old_request() -> None:
    talk = Conversation()
    talk.stable(2, session_timeout_ms=100_000)
    old = talk.join(instance_id="i")
    new = talk.join(instance_id="i")
    assert talk.joined[old].error is ErrorCode.FENCED_INSTANCE_ID
    assert new in talk.open


def test_absent_static_members_hold_a_rebalance_until_their_sessions_end() -> None:
    talk = Conversation()
    talk.stable(1, instance_id="i", session_timeout_ms=200_000)
    talk.join()
    talk.leave(LeavingMember("m2", None))
    talk.wait(REBALANCE_MS * 2)
    assert state_of(talk) is GroupState.PREPARING
    talk.wait(200_000)
    assert state_of(talk) is GroupState.EMPTY


def test_earlier_join_of_a_member_that_joins_again_returns_rebalance_in_progress() -> None:
    talk = Conversation()
    leader, _ = talk.stable(2)
    first = talk.join(leader)
    second = talk.join(leader)
    assert talk.joined[first].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second in talk.open


def test_closed_group_returns_not_coordinator_to_every_waiting_request() -> None:
    talk = Conversation()
    leader, _ = talk.stable(2)
    ticket = talk.join(leader)
    talk.close()
    assert talk.joined[ticket].error is ErrorCode.NOT_COORDINATOR
    assert talk.heartbeat(leader) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert talk.joined[talk.join()].error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_commits_are_refused_unless_their_member_and_generation_are_current() -> None:
    talk = Conversation()
    assert talk.commit() is NONE
    assert talk.commit("unknown", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    (member,) = talk.stable(1, instance_id="i")
    assert talk.commit(member, 1, "i") is NONE
    assert talk.commit(member, 1) is NONE
    assert talk.commit(member, 0) is ErrorCode.ILLEGAL_GENERATION
    assert talk.commit("unknown", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.commit("unknown", 1, "i") is ErrorCode.FENCED_INSTANCE_ID
    assert talk.commit() is ErrorCode.UNKNOWN_MEMBER_ID
    talk.join(member, instance_id="i")
    assert talk.commit(member, 2) is ErrorCode.REBALANCE_IN_PROGRESS
