"""Members of groups, and a broker that does not run for longer than their sessions."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.sync_group import SyncGroupRequest
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.pauses import pause
from tests.support.processes import pause_process
from tests.support.stalled_broker import SHORT_SESSIONS
from tests.support.wire import Wire

SESSION_MS = 8_000
MEMBERS = 100
SILENT = 20
FLOODS = 5
FLOOD = 500
WAIT_S = 60.0
HEARTBEAT = 3
METADATA = 9
EXPENSIVE = MetadataRequest(
    topics=[MetadataRequestTopic(name=f"topic-{number}") for number in range(100)],
    allow_auto_topic_creation=False,
)
BEFORE = [(EXPENSIVE, METADATA)] * 4
"""Clients have five requests in flight."""


class Member:
    """The only member of its group, on a connection of its own."""

    def __init__(self, address: str, group: str) -> None:
        self.group = group
        self.wire = Wire(address)
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        joined = self.wire.call(
            JoinGroupRequest(
                group_id=group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id="",
                protocol_type="consumer",
                protocols=protocols,
            ),
            3,
        )
        assert joined.error_code == ErrorCode.NONE
        self._id, self._generation = joined.member_id, joined.generation_id
        synced = SyncGroupRequest(
            group_id=group, generation_id=self._generation, member_id=self._id, assignments=[]
        )
        assert self.wire.call(synced, 2).error_code == ErrorCode.NONE

    def heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.group, generation_id=self._generation, member_id=self._id
        )


@contextmanager
def members(address: str, name: str, count: int) -> Iterator[list[Member]]:
    with ExitStack() as stack:
        caller = Wire(address)
        stack.callback(caller.close)
        while caller.call(FindCoordinatorRequest(key=name), 2).error_code != ErrorCode.NONE:
            pause()
        joined = [Member(address, f"{name}-{number}") for number in range(count)]
        for member in joined:
            stack.callback(member.wire.close)
        yield joined


def wait_until_removed(broker: BrokerProcess, silent: list[Member]) -> None:
    """Wait until the groups of members without heartbeats are empty."""
    wire = Wire(broker.address)
    request = DescribeGroupsRequest(groups=[member.group for member in silent])
    end_s = monotonic() + WAIT_S
    while any(group.members for group in wire.call(request, 3).groups):
        assert monotonic() < end_s, "members without heartbeats are kept"
        pause()
    wire.close()


def test_only_members_without_a_heartbeat_are_removed_when_the_broker_stood_still(
    tmp_path: Path,
) -> None:
    """Each heartbeat waits behind expensive requests of its connection and of all others, and some
    connections have sent more than can be handled soon."""
    with (
        odradek_broker(tmp_path, overrides=SHORT_SESSIONS) as broker,
        members(broker.address, "silent", SILENT) as silent,
        members(broker.address, "live", MEMBERS) as live,
    ):
        floods = [Wire(broker.address) for _ in range(FLOODS)]
        for member in live:
            assert member.wire.call(member.heartbeat(), HEARTBEAT).error_code == ErrorCode.NONE
        pause_process(broker.process.pid)
        over_s = monotonic() + SESSION_MS / 1000
        for member in live:
            member.wire.send_together([*BEFORE, (member.heartbeat(), HEARTBEAT)])
        for flood in floods:
            flood.send_together([*BEFORE] * FLOOD)
        for member in live:
            member.wire.await_arrival()
        while monotonic() < over_s:
            pause()
        os.kill(broker.process.pid, signal.SIGCONT)
        removed = []
        for member in live:
            for _ in BEFORE:
                member.wire.receive_frame()
            if member.wire.receive(ApiKey.HEARTBEAT, HEARTBEAT).error_code != ErrorCode.NONE:
                removed.append(member.group)
        assert removed == []
        wait_until_removed(broker, silent)
        for flood in floods:
            flood.close()
