"""Members of consumer groups in a simulated cluster: their own protocol, over its network.

Members of the classic protocol; some of them are static.  `consumer_members` has those of the new
protocol.  Records are not fetched: a member takes for read
what is committed of its partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from odradek.broker.topics import OFFSETS_TOPIC
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.topic_partition import TopicPartition
from tests.sim.clients import RETRY_US, TOPIC, ClientHost
from tests.sim.group_history import GroupHistory
from tests.sim.transactions import pause

SESSION_TIMEOUT_MS: Final = 2_500
REBALANCE_TIMEOUT_MS: Final = 2_000
HEARTBEAT_US: Final = 800_000
RESTART_US: Final = 3_000_000
STALL_US: Final = 4_000_000
DEATH_ONE_IN: Final = 30
LEAVE_ONE_IN: Final = 30
STALL_ONE_IN: Final = 20
REPLACED_ONE_IN: Final = 15
FIND_VERSION: Final = 3
JOIN_VERSION: Final = 7
SYNC_VERSION: Final = 5
HEARTBEAT_VERSION: Final = 4
LEAVE_VERSION: Final = 4
FETCH_VERSION: Final = 7
OFFSETS: Final = TopicPartition(OFFSETS_TOPIC, 0)
PROTOCOL_TYPE: Final = "consumer"
PROTOCOL: Final = "by turns"
SUBSCRIPTION: Final = (
    b"\0\0\0\0\0\1" + len(TOPIC).to_bytes(2) + TOPIC.encode() + b"\xff\xff\xff\xff"
)
"""Version 0, one topic, no data."""
ASKED_AGAIN: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)
"""Asked again, of a coordinator that is looked up again."""
OUT_OF_GENERATION: Final = (
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
)


class Expelled(Exception):
    """The member has to join again."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class GroupClient:
    """Asks the coordinator of a group over connections of its own."""

    def __init__(
        self, clients: ClientHost, history: GroupHistory, group: str, keys: list[TopicPartition]
    ) -> None:
        self._clients = clients
        self._history = history
        self.group = group
        self._keys = keys
        self._coordinator = -1

    async def _send(self, broker_id: int, message: Any, version: int) -> Any:
        return await self._clients.send(broker_id, message, version, channel=id(self))

    async def _find(self) -> int:
        request = FindCoordinatorRequest(key=self.group, key_type=0)
        while self._coordinator < 0:
            try:
                response = await self._send(self._clients.any_broker(), request, FIND_VERSION)
            except BrokerError:
                response = None
            if response is not None and not response.error_code:
                self._coordinator = response.node_id
            else:
                await pause(self._clients, RETRY_US)
        return self._coordinator

    async def _ask(
        self, make_request: Callable[[], Any], version: int, code_of: Callable[[Any], int]
    ) -> Any:
        """The response without an error.

        raises  Expelled
        """
        while True:
            broker_id = await self._find()
            try:
                response = await self._send(broker_id, make_request(), version)
                code = ErrorCode(code_of(response))
            except BrokerError:
                response, code = None, ErrorCode.NETWORK_EXCEPTION
            if code is ErrorCode.NONE:
                return response
            if code in OUT_OF_GENERATION:
                self._on_expelled(code, response)
                raise Expelled(code)
            if code not in ASKED_AGAIN:
                self._clients.world.fail(f"{self.group}: {make_request()} was refused: {code!r}")
            self._coordinator = -1
            await pause(self._clients, RETRY_US)

    def _on_expelled(self, code: ErrorCode, response: Any) -> None:
        """What a member keeps of the response."""

    async def fetch_offsets(self, keys: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offsets, -1 for none."""
        topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[key[1] for key in keys])
        request = OffsetFetchRequest(group_id=self.group, topics=[topic], require_stable=True)
        oracle = self._clients.oracle
        acknowledged: dict[TopicPartition, int] = {}
        state = None

        def make() -> OffsetFetchRequest:
            nonlocal acknowledged, state
            acknowledged = {key: self._history.acknowledged(self.group, key) for key in keys}
            state = oracle.state_of(OFFSETS)
            return request

        response = await self._ask(
            make,
            FETCH_VERSION,
            lambda response: (
                response.error_code
                or max(partition.error_code for partition in response.topics[0].partitions)
            ),
        )
        offsets = {
            TopicPartition(TOPIC, partition.partition_index): partition.committed_offset
            for partition in response.topics[0].partitions
        }
        # A broker that has been replaced may not know it: what it returns may be old.
        now = oracle.state_of(OFFSETS)
        if state is None or now is None or now.leader != self._coordinator:
            return offsets
        if now.leader_epoch == state.leader_epoch:
            for key, offset in offsets.items():
                self._history.on_fetched(self.group, key, offset, acknowledged=acknowledged[key])
        return offsets


class Member(GroupClient):
    """Joins its group again and again, and commits offsets of the partitions that it owns."""

    COMMIT_VERSION: ClassVar = 8

    def __init__(
        self,
        clients: ClientHost,
        history: GroupHistory,
        group: str,
        keys: list[TopicPartition],
        *,
        on_death: Callable[[], None],
        instance_id: str | None = None,
    ) -> None:
        """on_death     called when another member is to be started in its place
        instance_id  of a static member
        """
        super().__init__(clients, history, group, keys)
        self._on_death = on_death
        self._instance_id = instance_id
        self._asked_us = 0
        """When it asked to join."""
        self.is_replaced = False
        """Another member with its instance id is to be started, and it goes on meanwhile."""
        self._member_id = ""
        self.generation = -1
        self.owned: list[TopicPartition] = []
        self._positions: dict[TopicPartition, int] = {}
        self.is_settled = False
        """Whether it has its partitions, and no response has asked it to join again."""
        self.is_dead = False

    async def run(self) -> None:
        """All generations of this member."""
        while not self.is_dead:
            try:
                await self._join()
                while not self.is_dead:
                    await pause(
                        self._clients, self._clients.world.random.randrange(1, HEARTBEAT_US)
                    )
                    if not await self._hazard():
                        await self._heartbeat()
                    await self._commit()
            except Expelled as refusal:
                self.is_settled = False
                self._clients.world.counts[f"member: {refusal}"] += 1

    def _on_expelled(self, code: ErrorCode, response: Any) -> None:
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            # An earlier request of its own, which arrived late, may have replaced it.
            self._member_id = ""
            self.is_dead = self.is_dead or self.is_replaced

    async def _hazard(self) -> bool:
        """It may end here, leave, or stop for long.

        returns  whether it commits next although it may have been expelled
        """
        world = self._clients.world
        if world.is_calm:
            return False
        if not world.random.randrange(DEATH_ONE_IN):
            world.note(f"a member of {self.group} dies")
            world.counts["member death"] += 1
            self.is_dead = True
            if not self.is_replaced:
                self._on_death()
            return True
        if (
            self._instance_id is not None
            and not self.is_replaced
            and not world.random.randrange(REPLACED_ONE_IN)
        ):
            world.note(f"{self._instance_id} of {self.group} is replaced, and goes on")
            world.counts["member replaced"] += 1
            self.is_replaced = True
            self._on_death()
            await pause(self._clients, world.random.randrange(1, STALL_US))
            return True
        if not self.is_replaced and not world.random.randrange(LEAVE_ONE_IN):
            await self._leave()
            raise Expelled(ErrorCode.UNKNOWN_MEMBER_ID)
        if not world.random.randrange(STALL_ONE_IN):
            world.counts["member stalled"] += 1
            await pause(self._clients, STALL_US)
            return True
        return False

    async def _leave(self) -> None:
        self._clients.world.counts["member left"] += 1
        member = MemberIdentity(member_id=self._member_id, group_instance_id=self._instance_id)
        request = LeaveGroupRequest(group_id=self.group, members=[member])
        self.is_settled = False
        await self._ask(
            lambda: request,
            LEAVE_VERSION,
            lambda response: response.error_code or response.members[0].error_code,
        )
        self._member_id = ""

    async def _join(self) -> None:
        """Join and get an assignment.

        raises  Expelled
        """
        joined = await self._ask(
            self._make_join, JOIN_VERSION, lambda response: response.error_code
        )
        self._member_id, self.generation = joined.member_id, joined.generation_id
        assignments = []
        if joined.leader == joined.member_id:
            assignments = self._assign([member.member_id for member in joined.members])
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=assignments,
        )
        synced = await self._ask(
            lambda: request, SYNC_VERSION, lambda response: response.error_code
        )
        self.owned = [TopicPartition(TOPIC, index) for index in bytes(synced.assignment)]
        owner = self._instance_id or self._member_id
        self._history.on_assigned(self.group, self.generation, owner, self.owned)
        if self._instance_id is not None:
            self._history.on_incumbent(
                self.group, self._instance_id, self._member_id, asked_us=self._asked_us
            )
        self._clients.world.counts["assignment"] += 1
        self._positions = {}
        if self.owned:
            for key, offset in (await self.fetch_offsets(self.owned)).items():
                self._positions[key] = max(0, offset)
        self.is_settled = True

    def _make_join(self) -> JoinGroupRequest:
        self._asked_us = self._clients.world.now_us
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=SUBSCRIPTION)],
        )

    def _assign(self, members: list[str]) -> list[SyncGroupRequestAssignment]:
        """By turns, from a member that is drawn: owners change."""
        shift = self._clients.world.random.randrange(len(members))
        indexes = [key.partition for key in self._keys]
        return [
            SyncGroupRequestAssignment(
                member_id=member,
                assignment=bytes(indexes[(number + shift) % len(members) :: len(members)]),
            )
            for number, member in enumerate(members)
        ]

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
        )
        await self._ask(lambda: request, HEARTBEAT_VERSION, lambda response: response.error_code)

    def _newest(self, key: TopicPartition) -> int:
        """The newest generation in which a partition is known to have an owner."""
        return self._history.newest(self.group)

    async def _commit(self) -> None:
        """Commit what is read of one partition, when there is something new.

        At the end also when an older commit, which arrived late, has replaced the last one.
        """
        world = self._clients.world
        ends = {key: len(self._clients.oracle.of(key).batches) for key in self.owned}
        behind = [
            key
            for key in self.owned
            if self._positions[key] < ends[key]
            or (world.is_calm and self._history.committed(self.group, key) < self._positions[key])
        ]
        if not behind or self.is_dead:
            return
        key = world.random.choice(behind)
        step = ends[key] - self._positions[key]
        offset = (
            ends[key] if world.is_calm else self._positions[key] + world.random.randint(1, step)
        )
        partition = OffsetCommitRequestPartition(
            partition_index=key.partition, committed_offset=offset, committed_metadata=None
        )
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
        newest, asked_us = -1, 0

        def make() -> OffsetCommitRequest:
            nonlocal newest, asked_us
            newest, asked_us = self._newest(key), world.now_us
            return OffsetCommitRequest(
                group_id=self.group,
                generation_id_or_member_epoch=self.generation,
                member_id=self._member_id,
                group_instance_id=self._instance_id,
                topics=topics,
            )

        await self._ask(
            make, self.COMMIT_VERSION, lambda response: response.topics[0].partitions[0].error_code
        )
        self._history.on_commit_acknowledged(
            self.group, key, offset, generation=self.generation, newest=newest
        )
        self._history.on_accepted(self.group, self._member_id, f"{key}", asked_us=asked_us)
        world.counts["offset commit"] += 1
        self._positions[key] = offset
