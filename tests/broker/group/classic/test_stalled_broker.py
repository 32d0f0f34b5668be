"""A broker that did not run for longer than a session has still been sent the heartbeat in time."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.sync_group import SyncGroupRequest
from tests.support.broker_process import odradek_broker
from tests.support.processes import pause_process
from tests.support.stalled_broker import SHORT_SESSIONS
from tests.support.wire import Wire

SESSION_MS = 6_000
STALL_S = 6.5
MEMBERS = 3


@pytest.mark.parametrize("sends_heartbeats", [True, False])
def test_members_whose_heartbeats_arrived_during_a_stall_stay(
    tmp_path: Path, sends_heartbeats: bool
) -> None:
    with odradek_broker(tmp_path, overrides=SHORT_SESSIONS) as broker:
        wires = [Wire(broker.address) for _ in range(MEMBERS)]
        asked = FindCoordinatorRequest(key="g", key_type=0)
        responses = (wires[0].call(asked, 3).error_code for _ in range(10_000))
        assert ErrorCode.NONE in responses
        heartbeats = [joined(wire, f"g{number}") for number, wire in enumerate(wires)]
        for wire, heartbeat in zip(wires, heartbeats, strict=True):
            assert wire.call(heartbeat, 4).error_code == ErrorCode.NONE
        pause_process(broker.process.pid)
        if sends_heartbeats:
            for wire, heartbeat in zip(wires, heartbeats, strict=True):
                wire.send(heartbeat, 4)
                wire.await_arrival()
        assert wires[0].is_silent(STALL_S)
        os.kill(broker.process.pid, signal.SIGCONT)
        if not sends_heartbeats:
            assert any(are_empty(wires[0]) for _ in range(10_000))
            for wire, heartbeat in zip(wires, heartbeats, strict=True):
                wire.send(heartbeat, 4)
        errors = [wire.receive(ApiKey.HEARTBEAT, 4).error_code for wire in wires]
        for wire in wires:
            wire.close()
    expected = ErrorCode.NONE if sends_heartbeats else ErrorCode.UNKNOWN_MEMBER_ID
    assert errors == [expected] * MEMBERS


def are_empty(wire: Wire) -> bool:
    """Whether the sessions of all members have ended."""
    request = DescribeGroupsRequest(groups=[f"g{number}" for number in range(MEMBERS)])
    return {group.group_state for group in wire.call(request, 5).groups} == {"Empty"}


def joined(wire: Wire, group: str) -> HeartbeatRequest:
    """Join as the only member; returns the heartbeat that keeps the session."""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    member = wire.call(request, 3)
    names = {
        "group_id": group,
        "generation_id": member.generation_id,
        "member_id": member.member_id,
    }
    assert wire.call(SyncGroupRequest(**names, assignments=[]), 3).error_code == ErrorCode.NONE
    return HeartbeatRequest(**names)
