"""What a request may be and may ask for, and what a client may leave untaken."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from odradek.broker.server.budget import Budget
from odradek.broker.server.dispatch import TRAILING_BYTES_MAX
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.protocol.schema import ZERO_UUID
from tests.scripts.chapters.batches import batch, produce_request
from tests.support.node_here import Caller, NodeHere, decoded, framed, node_here

MEBIBYTE: Final = 1 << 20


@pytest.fixture
def here(tmp_path: Path) -> Iterator[NodeHere]:
    with node_here(
        tmp_path,
        num_partitions="1",
        log_cleaner_enable="false",
        socket_request_max_bytes=str(2 * MEBIBYTE),
        queued_max_request_bytes=str(4 * MEBIBYTE),
    ) as node:
        yield node
        assert node.failures == []


def make_topic(here: NodeHere, caller: Caller, name: str, **configs: str) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    response = here.call(caller, CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7)
    assert response.topics[0].error_code == 0


def is_closed_without_a_byte(here: NodeHere, content: bytes) -> bool:
    caller = here.caller()
    caller.send_bytes(content)

    def has_ended() -> bool:
        caller.step()
        return caller.is_closed or bool(caller.received)

    here.until(has_ended, "neither")
    return caller.is_closed and not caller.received


def joining(group_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def test_group_id_that_no_older_version_can_write_never_gets_in(here: NodeHere) -> None:
    caller = here.caller()
    here.call(caller, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    assert is_closed_without_a_byte(here, framed(joining("g" * 0x8000), 9, 1))
    assert here.call(caller, joining("g" * 0x7FFF), 9).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert here.call(caller, ListGroupsRequest(), 0).error_code == 0


def test_few_bytes_after_a_request_are_passed_over_as_kafka_does(here: NodeHere) -> None:
    """librdkafka 2.16 sends three after a Metadata for all topics."""
    caller = here.caller()
    content = framed(ApiVersionsRequest(), 0, 1)[4:] + bytes(TRAILING_BYTES_MAX)
    caller.send_bytes(struct.pack(">i", len(content)) + content)
    here.until(lambda: bool(caller.frames()), "no response")


@pytest.mark.parametrize("size", [TRAILING_BYTES_MAX + 1, 20_000, 100_000])
def test_many_bytes_after_a_request_close_the_connection(here: NodeHere, size: int) -> None:
    content = framed(ApiVersionsRequest(), 0, 1)[4:] + bytes(size)
    assert is_closed_without_a_byte(here, struct.pack(">i", len(content)) + content)
    assert here.server.frame_memory.held_bytes == 0


@pytest.mark.parametrize("acks", [0, 1])
def test_unserved_produce_without_acks_gets_no_response(here: NodeHere, acks: int) -> None:
    body = struct.pack(">hii", acks, 1_000, 0)
    content = encode_request_header(0, 2, 7, "old") + body
    is_silent = is_closed_without_a_byte(here, struct.pack(">i", len(content)) + content)
    assert is_silent == (acks == 0)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_unserved_fetch_gets_an_error_with_0_bytes_of_records(here: NodeHere, version: int) -> None:
    partition = FetchPartition(partition=5, fetch_offset=0, partition_max_bytes=MEBIBYTE)
    topic = FetchTopic(topic="old", topic_id=ZERO_UUID, partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic])
    response = here.call(here.caller(), request, version)
    (row,) = response.responses[0].partitions
    assert (row.partition_index, row.error_code) == (5, ErrorCode.UNSUPPORTED_VERSION)
    assert row.records is not None
    assert bytes(row.records) == b""


def test_more_elements_than_any_request_needs_close_the_connection(here: NodeHere) -> None:
    topics = [MetadataRequestTopic(name="") for _ in range(200_001)]
    assert is_closed_without_a_byte(here, framed(MetadataRequest(topics=topics), 9, 1))
    assert here.server.budget.held_bytes == 0


def test_response_that_would_be_too_large_is_an_error_instead(here: NodeHere) -> None:
    caller = here.caller()
    names = [f"{number}".rjust(240, "x") for number in range(5_000)]
    response = here.call(caller, DescribeGroupsRequest(groups=names), 5)
    assert {group.error_code for group in response.groups} == {ErrorCode.INVALID_REQUEST}
    assert (
        here.call(caller, DescribeGroupsRequest(groups=names[:100]), 5).groups[0].error_code == 16
    )


def test_group_is_described_once_however_often_it_is_named(here: NodeHere) -> None:
    response = here.call(here.caller(), DescribeGroupsRequest(groups=["a", "b", "a"]), 5)
    assert [group.group_id for group in response.groups] == ["a", "b"]


def test_configs_are_described_once_however_often_their_resource_is_named(here: NodeHere) -> None:
    caller = here.caller()
    make_topic(here, caller, "t")
    own = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
    few = DescribeConfigsResource(
        resource_type=2, resource_name="t", configuration_keys=["retention.ms"]
    )
    response = here.call(caller, DescribeConfigsRequest(resources=[own, few, own, few]), 4)
    assert [len(result.configs) == 1 for result in response.results] == [False, True]


def test_ids_and_partitions_are_described_once_however_often_they_are_named(here: NodeHere) -> None:
    caller = here.caller()
    make_topic(here, caller, "t")
    transactions = DescribeTransactionsRequest(transactional_ids=["a", "b", "a"])
    states = here.call(caller, transactions, 0).transaction_states
    assert [state.transactional_id for state in states] == ["a", "b"]
    twice = [TopicRequest(name="t", partition_indexes=[0, 0])] * 2
    topics = here.call(caller, DescribeProducersRequest(topics=twice), 0).topics
    assert sum(len(topic.partitions) for topic in topics) == 1
    groups = ConsumerGroupDescribeRequest(
        group_ids=["a", "b", "a"], include_authorized_operations=False
    )
    described = here.call(caller, groups, 1).groups
    assert [group.group_id for group in described] == ["a", "b"]
    whole = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("a", "b", "a")]
    fetched = here.call(caller, OffsetFetchRequest(groups=whole), 8).groups
    assert [group.group_id for group in fetched] == ["a", "b"]


def test_only_the_connection_with_most_unread_responses_is_closed(here: NodeHere) -> None:
    modest = here.caller()
    names = [f"{number}".rjust(200, "x") for number in range(2_000)]
    request = framed(DescribeGroupsRequest(groups=names), 5, 1)
    greedy = [here.caller() for _ in range(12)]
    for caller in greedy:
        caller.takes = False
        caller.send_bytes(request * 40)
    modest.send_bytes(framed(DescribeGroupsRequest(groups=names[:10]), 5, 1))
    budget = here.server.budget
    here.until(lambda: len(here.server.connections) < len(greedy) + 1, "no connection is closed")
    assert budget.held_bytes <= budget.bytes_max
    here.until(lambda: bool(modest.frames()), "the modest one waits")
    assert here.call(modest, ApiVersionsRequest(), 0).error_code == 0
    for caller in greedy:
        caller.close()
    here.until(lambda: len(here.server.connections) == 1, "a connection stays")
    assert budget.held_bytes == 0


def heavy(count: int, key: bytes | None = b"key") -> bytes:
    records = [Record(key, b"value %d" % number, timestamp_ms=1) for number in range(count)]
    return bytes(build_batch(records, codec=1))


@pytest.mark.parametrize("topic", ["recompressed", "compacted"])
def test_batches_that_are_checked_in_a_thread_keep_the_order_of_their_connection(
    here: NodeHere, topic: str
) -> None:
    caller = here.caller()
    make_topic(here, caller, "recompressed", compression_type="lz4")
    make_topic(here, caller, "compacted", cleanup_policy="compact")
    contents: list[bytes | bytearray] = [
        heavy(3_000),
        heavy(2),
        heavy(3_000),
        batch(1),
        heavy(1_000),
    ]
    counts = [3_000, 2, 3_000, 1, 1_000]
    caller.send_bytes(
        b"".join(
            framed(produce_request(topic, content), 9, number)
            for number, content in enumerate(contents)
        )
    )
    frames: list[bytes] = []

    def are_there() -> bool:
        frames.extend(caller.frames())
        return len(frames) == len(contents)

    here.until(are_there, "a batch is not answered")
    responses = [decoded(frame, 0, 9).responses[0].partition_responses[0] for frame in frames]
    assert [response.error_code for response in responses] == [0] * len(contents)
    assert [response.base_offset for response in responses] == [
        sum(counts[:number]) for number in range(len(counts))
    ]


def test_batch_refused_in_a_thread_gets_its_error_and_other_batches_are_appended(
    here: NodeHere,
) -> None:
    caller = here.caller()
    make_topic(here, caller, "compacted", cleanup_policy="compact")
    refused = here.call(caller, produce_request("compacted", heavy(1_000, key=None)), 9)
    assert refused.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_RECORD
    kept = here.call(caller, produce_request("compacted", heavy(1_000)), 9)
    assert kept.responses[0].partition_responses[0].base_offset == 0


def test_connection_that_ends_while_its_batch_is_checked_leaves_nothing(here: NodeHere) -> None:
    caller = here.caller()
    make_topic(here, caller, "recompressed", compression_type="lz4")
    for _ in range(5):
        other = here.caller()
        other.send_bytes(framed(produce_request("recompressed", heavy(20_000)), 9, 1))
        here.turn()
        other.close()
    here.until(lambda: len(here.server.connections) == 1, "a connection stays")
    here.until(lambda: here.server.frame_memory.held_bytes == 0, "its memory stays")
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="recompressed", partitions=[partition])
    fetched = here.call(caller, FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic]), 11)
    assert fetched.responses[0].partitions[0].error_code == 0


class ChargedConnection:
    """A connection as the budget sees it."""

    def __init__(self, budget: Budget) -> None:
        self.client_host = "here"
        self.budget = budget
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True
        self.budget.forget(self)


def test_connection_with_the_largest_charge_is_closed_and_its_charge_is_released() -> None:
    budget = Budget(100)
    small, large, other = (ChargedConnection(budget) for _ in range(3))
    budget.charge(small, 10)
    budget.charge(large, 50)
    budget.set_responses(other, 40)
    assert not large.is_closed
    budget.set_responses(other, 45)
    assert (small.is_closed, large.is_closed, other.is_closed) == (False, True, False)
    assert budget.held_bytes == 55
    budget.release(large, 50)
    budget.release(small, 10)
    budget.set_responses(other, 0)
    assert budget.held_bytes == 0


def test_requests_and_responses_of_one_connection_count_together() -> None:
    budget = Budget(100)
    shared, single = ChargedConnection(budget), ChargedConnection(budget)
    budget.charge(shared, 40)
    budget.set_responses(shared, 20)
    budget.charge(single, 45)
    assert shared.is_closed
    assert not single.is_closed
    assert budget.of(single) == budget.held_bytes == 45
