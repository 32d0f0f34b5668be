"""What honest clients do all day, at the pace of one that is in a hurry: come, work, leave.

Every round opens connections, makes a topic, writes to it as a new producer, reads it with an
incremental fetch session, joins a group, commits, leaves, deletes the group and the topic, and ends
the connections.  So whatever a broker keeps of a client that is gone shows as growth.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from uuid import UUID

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.protocol.schema import ZERO_UUID
from tests.scripts.chapters.batches import produce_request
from tests.support.wire import Wire

PARTITIONS = 3
BATCHES_A_PARTITION = 3
COORDINATOR_LOADS = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class Refused(AssertionError):
    """An honest request got an error."""


def expect(response: Any, *codes: int) -> None:
    """Every error code that was given is NONE."""
    wrong = [ErrorCode(code).name for code in codes if code]
    if wrong:
        raise Refused(f"{', '.join(wrong)}: {response}")


class Churn:
    """A client of one broker that never does the same twice."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.rounds = 0
        self.requests = 0

    def run_round(self, now_ms: int) -> None:
        """One round; raises Refused, Closed or TimeoutError when the broker fails it.

        now_ms  wall time for the records, so that retention keeps them
        """
        self.rounds += 1
        topic, group = f"churn-{self.rounds}", f"churn-group-{self.rounds}"
        with ExitStack() as connections:
            admin, producer, consumer = (
                connections.enter_context(Wire(self._address)) for _ in range(3)
            )
            topic_id = self._create(admin, topic)
            self._produce(producer, topic, now_ms)
            self._fetch(consumer, topic_id)
            self._consume(consumer, topic, group)
            self._delete(admin, topic, group)

    def _call(self, wire: Wire, request: Any, version: int) -> Any:
        self.requests += 1
        return wire.call(request, version)

    def _create(self, wire: Wire, topic: str) -> UUID:
        creatable = CreatableTopic(
            name=topic, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]
        )
        made = self._call(wire, CreateTopicsRequest(topics=[creatable]), 7).topics[0]
        expect(made, made.error_code)
        topic_id: UUID = made.topic_id
        return topic_id

    def _produce(self, wire: Wire, topic: str, now_ms: int) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        given = self._call(wire, request, 4)
        expect(given, given.error_code)
        for partition in range(PARTITIONS):
            for number in range(BATCHES_A_PARTITION):
                batch = build_batch(
                    [Record(b"key", b"x" * 500, timestamp_ms=now_ms)],
                    producer_id=given.producer_id,
                    producer_epoch=given.producer_epoch,
                    base_sequence=number,
                )
                written = self._call(wire, produce_request(topic, batch, partition=partition), 9)
                expect(written, written.responses[0].partition_responses[0].error_code)

    def _fetch(self, wire: Wire, topic_id: UUID) -> None:
        partitions = [
            FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
            for index in range(PARTITIONS)
        ]
        first = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_epoch=0,
            topics=[FetchTopic(topic_id=topic_id, partitions=partitions)],
        )
        given = self._call(wire, first, 15)
        expect(given, given.error_code)
        session_id, epoch = given.session_id, 1
        # A session that the broker cannot keep is no failure: it says so with 0.
        while session_id and epoch <= BATCHES_A_PARTITION:
            following = FetchRequest(
                max_wait_ms=0, min_bytes=0, session_id=session_id, session_epoch=epoch, topics=[]
            )
            given = self._call(wire, following, 15)
            if given.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                return
            expect(given, given.error_code)
            epoch += 1

    def _consume(self, wire: Wire, topic: str, group: str) -> None:
        self._find_coordinator(wire, group)
        member_id, generation = self._join(wire, group)
        synced = self._call(
            wire,
            SyncGroupRequest(
                group_id=group,
                generation_id=generation,
                member_id=member_id,
                assignments=[
                    SyncGroupRequestAssignment(member_id=member_id, assignment=b"x" * 100)
                ],
            ),
            3,
        )
        expect(synced, synced.error_code)
        heartbeat = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
        response = self._call(wire, heartbeat, 3)
        expect(response, response.error_code)
        place = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata="churn"
        )
        committed = self._call(
            wire,
            OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=generation,
                member_id=member_id,
                topics=[OffsetCommitRequestTopic(name=topic, partitions=[place])],
            ),
            7,
        )
        expect(committed, committed.topics[0].partitions[0].error_code)
        leaving = MemberIdentity(member_id=member_id)
        left = self._call(wire, LeaveGroupRequest(group_id=group, members=[leaving]), 3)
        expect(left, left.error_code)

    def _find_coordinator(self, wire: Wire, group: str) -> None:
        """The first request of all makes `__consumer_offsets`, which takes a moment."""
        while True:
            response = self._call(wire, FindCoordinatorRequest(key=group, key_type=0), 3)
            if response.error_code not in COORDINATOR_LOADS:
                expect(response, response.error_code)
                return

    def _join(self, wire: Wire, group: str) -> tuple[str, int]:
        member_id = ""
        while True:
            joined = self._call(wire, join_request(group, member_id), 5)
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                member_id = joined.member_id
            elif joined.error_code not in COORDINATOR_LOADS:
                expect(joined, joined.error_code)
                return joined.member_id, joined.generation_id

    def _delete(self, wire: Wire, topic: str, group: str) -> None:
        gone = self._call(wire, DeleteGroupsRequest(groups_names=[group]), 2)
        expect(gone, gone.results[0].error_code)
        names = [DeleteTopicState(name=topic, topic_id=ZERO_UUID)]
        deleted = self._call(wire, DeleteTopicsRequest(topics=names, timeout_ms=30_000), 6)
        expect(deleted, deleted.responses[0].error_code)


def join_request(
    group: str,
    member_id: str = "",
    *,
    instance_id: str | None = None,
    metadata: bytes = b"m" * 100,
    session_ms: int = 10_000,
) -> JoinGroupRequest:
    """A member of the classic protocol that knows one assignor."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
