"""Members that start together share the first generation, though nothing delays it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from odradek.broker.group.classic.events import LeavingMember
from odradek.broker.group.classic.state import FIRST_JOIN_WAIT_MS, GroupState
from odradek.broker.group.limits import GroupLimits
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.broker.group.classic.conversation import Conversation
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.processes import pause_process
from tests.support.wire import Wire

ROUNDS = 5
DYNAMIC_VERSION = 3
"""The last version that needs no id first."""
STATIC_VERSION = 9


def test_first_join_without_a_delay_waits_a_moment_for_others() -> None:
    talk = Conversation(GroupLimits(initial_delay_ms=0), skips_first_wait=False)
    first = talk.join()
    talk.wait(FIRST_JOIN_WAIT_MS - 1)
    second = talk.join()
    assert first in talk.open
    talk.wait(1)
    assert talk.joined[first].generation == talk.joined[second].generation == 1
    assert len(talk.joined[first].members) == 2


def test_members_that_keep_coming_do_not_prolong_a_delay_of_zero() -> None:
    talk = Conversation(GroupLimits(initial_delay_ms=0), skips_first_wait=False)
    first = talk.join()
    for _ in range(FIRST_JOIN_WAIT_MS):
        talk.join()
        talk.wait(1)
    assert len(talk.joined[first].members) == 1 + FIRST_JOIN_WAIT_MS


@pytest.mark.parametrize("delay_ms", [1, 2, 3])
def test_members_that_keep_coming_prolong_any_other_delay(delay_ms: int) -> None:
    talk = Conversation(GroupLimits(initial_delay_ms=delay_ms))
    first = talk.join(rebalance_timeout_ms=100)
    for _ in range(10 // delay_ms):
        talk.join(rebalance_timeout_ms=100)
        talk.wait(delay_ms)
    assert first in talk.open
    talk.wait(100)
    assert len(talk.joined[first].members) == 1 + 10 // delay_ms


@pytest.mark.parametrize("leaves_early", [False, True])
def test_empty_group_waits_the_moment_again(leaves_early: bool) -> None:
    talk = Conversation(GroupLimits(initial_delay_ms=0), skips_first_wait=False)
    first = talk.join()
    if not leaves_early:
        talk.wait(FIRST_JOIN_WAIT_MS)
    talk.leave(LeavingMember(next(iter(talk.group.members)), None))
    talk.wait(FIRST_JOIN_WAIT_MS)
    left = talk.joined[first].error
    assert left is (ErrorCode.UNKNOWN_MEMBER_ID if leaves_early else ErrorCode.NONE)
    assert talk.group.state is GroupState.EMPTY
    tickets = [talk.join(), talk.join()]
    talk.wait(FIRST_JOIN_WAIT_MS)
    assert len({talk.joined[ticket].generation for ticket in tickets}) == 1


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose groups have no initial delay."""
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
    with odradek_broker(tmp_path_factory.mktemp("joins"), overrides=settings) as running:
        with Wire(running.address) as wire:
            asked = FindCoordinatorRequest(key="g", key_type=0)
            responses = (wire.call(asked, 3).error_code for _ in range(10_000))
            assert ErrorCode.NONE in responses
        yield running


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("is_static", [False, True])
def test_members_whose_joins_arrive_together_share_the_first_generation(
    broker: BrokerProcess, size: int, is_static: bool
) -> None:
    version = STATIC_VERSION if is_static else DYNAMIC_VERSION
    wires = [Wire(broker.address) for _ in range(size)]
    for number in range(ROUNDS):
        # The joins wait in the sockets of a broker that stands still, however slow this machine is.
        pause_process(broker.process.pid)
        for place, wire in enumerate(wires):
            instance_id = f"i{place}" if is_static else None
            wire.send(join(f"{is_static}-{size}-{number}", instance_id), version)
        for wire in wires:
            wire.await_arrival()
        os.kill(broker.process.pid, signal.SIGCONT)
        responses = [wire.receive(ApiKey.JOIN_GROUP, version) for wire in wires]
        assert [(response.error_code, response.generation_id) for response in responses] == [
            (0, 1)
        ] * size
        assert sorted(len(response.members) for response in responses) == [*[0] * (size - 1), size]
    for wire in wires:
        wire.close()


def join(group: str, instance_id: str | None) -> JoinGroupRequest:
    """Of a new member."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
