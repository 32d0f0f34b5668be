"""The scene for the consumer group tools: topics with old records, groups in every state.

Members are connections of this process.  They send no heartbeats, since their sessions are longer
than every test.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from odradek.protocol.compiler import encoder
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.protocol.schema import ZERO_UUID
from odradek.protocol.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from tests.support.pauses import pause
from tests.support.wire import Wire

Offsets = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> offset."""

NEW_YEAR_MS: Final = 1_704_067_200_000
"""2024-01-01T00:00:00Z, the time of the first record of a partition; later ones follow hourly."""
HOUR_MS: Final = 3_600_000
SESSION_MS: Final = 600_000
READY_TIMEOUT_S: Final = 90.0
LONG_TOPIC: Final = "audit-trail.of_a-long-name"
TOPICS: Final[Mapping[str, Sequence[int]]] = {
    "orders": (10, 5, 0),
    "bills": (4,),
    LONG_TOPIC: (3, 1),
    "twelve": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
}
"""Number of records in each partition."""

OFFSETS: Final[Mapping[str, Offsets]] = {
    "empty": {"orders": {0: 4, 1: 5, 2: 0}, "bills": {0: 1}},
    "latter": {"bills": {0: 3}},
    "group-with-a-name-of-some-length": {LONG_TOPIC: {0: 1, 1: 1}},
    "shift": {"orders": {0: 4, 1: 2}, "bills": {0: 1}},
    "beyond": {"bills": {0: 99}},
    "live": {"orders": {0: 3}, "bills": {0: 2}, LONG_TOPIC: {1: 0}},
    "many-partitions": {"twelve": {index: index for index in range(12)}},
    "doomed": {"bills": {0: 1}},
    "doomed-too": {"bills": {0: 1}},
    "forgetful": {"orders": {0: 1, 1: 1, 2: 0}, "bills": {0: 1}},
    'quoted "group", and all': {"bills": {0: 2}},
}
FILES: Final = {
    "one.csv": "orders,0,5\norders,1,2\n",
    "one-quoted.csv": '"orders",0,"6"\r\n"bills", 0 ,2\r\n',
    "two.csv": "empty,orders,0,6\nsecond,bills,0,2\n",
    "far.csv": "orders,0,999\norders,1,0\norders,0,0\n",
    "words.csv": "orders,zero,5\n",
    "nowhere.csv": "nothing,0,5\n",
    "short.csv": "orders,1\n",
    "empty.csv": "",
    "five.csv": "empty,orders,0,5,6\n",
    "unclosed.csv": '"orders,0,5\n',
    "letters.csv": "empty,orders,zero,5\n",
    "gap.csv": "orders,0,5\n\norders,1,2\n",
}


@contextmanager
def scene(address: str, folder: Path) -> Iterator[None]:
    """Create the scene on an empty broker, and the files for `--from-file` in `folder`."""
    for name, text in FILES.items():
        (folder / name).write_text(text, newline="")
    with ExitStack() as stack:
        wire = stack.enter_context(Wire(address))
        _make_topics(wire)
        for group, offsets in OFFSETS.items():
            _commit(wire, group, offsets)
        _make_groups(stack, address)
        yield


def _make_topics(wire: Wire) -> None:
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=len(counts),
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name="retention.ms", value="-1")],
        )
        for name, counts in TOPICS.items()
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=30_000, validate_only=False)
    # The metadata of Apache's broker may still be empty when it reports its start.
    made = (0, ErrorCode.TOPIC_ALREADY_EXISTS)
    _until(
        lambda: wire.call(request, 5),
        lambda response: all(topic.error_code in made for topic in response.topics),
    )
    names = [MetadataRequestTopic(name=name, topic_id=ZERO_UUID) for name in TOPICS]
    asked = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    _until(
        lambda: wire.call(asked, 9),
        lambda response: all(
            not topic.error_code and all(partition.leader_id >= 0 for partition in topic.partitions)
            for topic in response.topics
        ),
    )
    for name, counts in TOPICS.items():
        for index, count in enumerate(counts):
            if count:
                _produce(wire, name, index, count)
    cut = DeleteRecordsPartition(partition_index=0, offset=2)
    response = wire.call(
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="orders", partitions=[cut])], timeout_ms=30_000
        ),
        2,
    )
    assert response.topics[0].partitions[0].error_code == 0


def _produce(wire: Wire, topic: str, index: int, count: int) -> None:
    """Write one batch per record, so that every record can be found by its time."""
    for number in range(count):
        record = Record(b"key", b"value", timestamp_ms=NEW_YEAR_MS + number * HOUR_MS)
        batch = PartitionProduceData(index=index, records=memoryview(build_batch([record])))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[batch])],
        )
        # Nothing was stored if the leader does not know yet that it leads.
        _until(
            partial(wire.call, request, 9),
            lambda response: not response.responses[0].partition_responses[0].error_code,
        )


def _commit(wire: Wire, group: str, offsets: Offsets) -> None:
    asked = FindCoordinatorRequest(key=group, key_type=0)
    _until(lambda: wire.call(asked, 3), lambda response: not response.error_code)
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata=""
                )
                for index, offset in partitions.items()
            ],
        )
        for topic, partitions in offsets.items()
    ]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    _until(
        lambda: wire.call(request, 7),
        lambda response: (
            not any(
                partition.error_code for topic in response.topics for partition in topic.partitions
            )
        ),
    )


def _until(ask: Callable[[], Any], is_ready: Callable[[Any], bool]) -> Any:
    """Repeat a call until its result is ready."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        response = ask()
        if is_ready(response):
            return response
        pause()
    raise AssertionError(f"the broker does not get ready: {response}")


def _make_groups(stack: ExitStack, address: str) -> None:
    """Create a group in every state of the classic protocol."""

    def member(group: str, *, instance: str | None = None, kind: str = "consumer") -> Member:
        wire = stack.enter_context(Wire(address))
        return Member(wire, group, instance_id=instance, protocol_type=kind)

    live = member("live")
    live.join()
    live.sync({live.member_id: {"orders": [0, 1], "bills": [0]}})
    pair = [member("pair"), member("pair")]
    pair[0].join()
    pair[1].send_join()
    _wait_for_state(address, "pair", "PreparingRebalance")
    pair[0].join()
    pair[1].receive_join()
    pair[1].send_sync({})
    pair[0].sync({pair[0].member_id: {"orders": [2, 0, 1]}, pair[1].member_id: {"bills": [0]}})
    pair[1].receive_sync()
    named = member("static", instance="the-first-instance")
    named.join()
    named.sync({named.member_id: {"twelve": [0, 10, 9, 2], "bills": [0]}})
    idle = member("idler")
    idle.join()
    idle.sync({})
    joined = member("joined")
    joined.join()
    waiting = [member("waiting"), member("waiting")]
    waiting[0].join()
    waiting[0].sync({waiting[0].member_id: {"bills": [0]}})
    waiting[1].send_join()
    _wait_for_state(address, "waiting", "PreparingRebalance")
    worker = member("workers", kind="connect")
    worker.join()
    worker.sync({})
    bygone = member("bygone")
    bygone.join()
    bygone.sync({bygone.member_id: {"bills": [0]}})
    bygone.leave()
    _commit(bygone.wire, "bygone", {"bills": {0: 2}})


def _wait_for_state(address: str, group: str, state: str) -> None:
    with Wire(address) as wire:
        asked = DescribeGroupsRequest(groups=[group])
        _until(
            lambda: wire.call(asked, 5), lambda response: response.groups[0].group_state == state
        )


class Member:
    """A member of a classic group, whose requests are sent one by one."""

    def __init__(
        self, wire: Wire, group: str, *, instance_id: str | None, protocol_type: str
    ) -> None:
        self.wire = wire
        self.member_id = ""
        self._group = group
        self._instance_id = instance_id
        self._protocol_type = protocol_type
        self._generation_id = -1

    def join(self) -> None:
        """Join, or rejoin; returns when the rebalance is complete."""
        self.send_join()
        self.receive_join()

    def send_join(self) -> None:
        """Send JoinGroup with the member id that the broker has returned first."""
        if not self.member_id and self._instance_id is None:
            first = self.wire.call(self._join_request(), 7)
            assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
            self.member_id = first.member_id
        self.wire.send(self._join_request(), 7)

    def receive_join(self) -> None:
        """Wait for the response of JoinGroup."""
        joined = self.wire.receive(11, 7)
        assert joined.error_code == 0, joined
        self.member_id = joined.member_id
        self._generation_id = joined.generation_id

    def _join_request(self) -> JoinGroupRequest:
        subscription = encoder(ConsumerProtocolSubscription, 0)(
            ConsumerProtocolSubscription(topics=["orders", "bills"])
        )
        return JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type=self._protocol_type,
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0" + subscription)],
        )

    def sync(self, assignments: Mapping[str, Mapping[str, Sequence[int]]]) -> None:
        """Send the assignment (member id -> topic -> partitions); none as a follower."""
        self.send_sync(assignments)
        self.receive_sync()

    def send_sync(self, assignments: Mapping[str, Mapping[str, Sequence[int]]]) -> None:
        """Send SyncGroup without waiting for its response."""
        rows = [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_assignment(topics))
            for member_id, topics in assignments.items()
        ]
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation_id,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            assignments=rows,
        )
        self.wire.send(request, 3)

    def receive_sync(self) -> None:
        """Wait for the response of SyncGroup."""
        synced = self.wire.receive(14, 3)
        assert synced.error_code == 0, synced

    def leave(self) -> None:
        """Send LeaveGroup."""
        identity = MemberIdentity(member_id=self.member_id)
        left = self.wire.call(LeaveGroupRequest(group_id=self._group, members=[identity]), 3)
        assert left.error_code == 0, left


def _assignment(topics: Mapping[str, Sequence[int]]) -> bytes:
    value = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=topic, partitions=list(partitions))
            for topic, partitions in topics.items()
        ]
    )
    return b"\0\0" + encoder(ConsumerProtocolAssignment, 0)(value)
