"""Rules without a broker: what is refused, which requests match, what budgets allow."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.handlers.shared.table import HANDLERS
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.testing.node.faults.rules import FaultRefused, Rules

SERVED: Final = {ApiKey(api.key): range(api.min_version, api.max_version + 1) for api in HANDLERS}
ORDERS_ID: Final = UUID(int=7)


def name_of(topic_id: UUID) -> str | None:
    return "orders" if topic_id == ORDERS_ID else None


def produce(topic: str = "orders", partition: int = 0, **fields: Any) -> ProduceRequest:
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=partition, records=None)]
    )
    return ProduceRequest(acks=1, timeout_ms=1, topic_data=[data], **fields)


def heartbeat(group: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=1, member_id="")


def hits(fields: dict[str, Any], api: ApiKey, version: int, *requests: Any) -> int:
    rules = Rules(SERVED)
    rule = rules.add(fields)
    for request in requests:
        rules.find(api, version, "client", request, name_of)
    return rule.hits


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"api": "Produce"}, "has an action"),
        ({"api": "Bake", "error": "NOT_CONTROLLER"}, "no API 'Bake' is served"),
        ({"api": "Produce", "error": "NO_BREAD"}, "there is no error 'NO_BREAD'"),
        ({"api": "Produce", "error": "NONE"}, "NONE is not an error"),
        ({"api": "Produce", "drop": True, "close": True}, "one action, not drop and close"),
        ({"api": "Produce", "times": 0, "drop": True}, "times is a whole number from 1"),
        ({"api": "Produce", "drop": "yes"}, "drop is true or false"),
        ({"api": "Produce", "eror": "NOT_CONTROLLER"}, "a fault has no 'eror'"),
        ({"api": "Produce", "partition": 0, "drop": True}, "a partition needs its topic"),
        ({"api": "Heartbeat", "topic": "orders", "drop": True}, "Heartbeat names no topic"),
        ({"api": "Produce", "group": "readers", "drop": True}, "Produce names no group"),
        (
            {"api": "CreateTopics", "topic": "a", "partition": 0, "error": "INVALID_REQUEST"},
            "CreateTopics has no error code for a partition",
        ),
        (
            {"api": "ConsumerGroupHeartbeat", "topic": "a", "error": "INVALID_REQUEST"},
            "ConsumerGroupHeartbeat has no error code for a topic",
        ),
        ({"api": "Produce", "corrupt": True}, "the response of Produce has no batches"),
        ({"api": "WriteTxnMarkers", "throttle_ms": 5}, "has no throttle_time_ms"),
    ],
)
def test_fault_that_cannot_be_is_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(FaultRefused, match=text):
        Rules(SERVED).add(fields)


@pytest.mark.parametrize("api", [0, "Produce", "PRODUCE", "produce"])
def test_api_is_named_by_number_or_name(api: object) -> None:
    assert hits({"api": api, "drop": True}, ApiKey.PRODUCE, 9, produce()) == 1


def test_every_api_of_clients_accepts_a_fault_of_the_whole_request() -> None:
    rules = Rules(SERVED)
    for api in SERVED:
        assert rules.add({"api": api.name, "error": "UNKNOWN_SERVER_ERROR"}).api is api


def test_produce_matches_by_topic_partition_and_transactional_id() -> None:
    requests = [
        produce("orders", 0),
        produce("orders", 1),
        produce("payments", 1),
        produce("orders", 1, transactional_id="t"),
    ]
    for criteria, count in (
        ({}, 4),
        ({"topic": "orders"}, 3),
        ({"topic": "orders", "partition": 1}, 2),
        ({"transactional_id": "t"}, 1),
        ({"transactional_id": "t", "topic": "payments"}, 0),
    ):
        fields = {"api": "Produce", "close": True, **criteria}
        assert hits(fields, ApiKey.PRODUCE, 9, *requests) == count


def test_topic_id_in_request_matches_name_of_topic() -> None:
    data = TopicProduceData(
        topic_id=ORDERS_ID, partition_data=[PartitionProduceData(index=0, records=None)]
    )
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[data])
    assert hits({"topic": "orders", "drop": True}, ApiKey.PRODUCE, 13, request) == 1
    assert hits({"topic": "payments", "drop": True}, ApiKey.PRODUCE, 13, request) == 0


def test_group_matches_its_members_and_its_coordinator() -> None:
    fields = {"group": "readers", "drop": True}
    assert hits(fields, ApiKey.HEARTBEAT, 4, heartbeat("readers"), heartbeat("writers")) == 1
    keys = ["writers", "readers"]
    of_group = FindCoordinatorRequest(key_type=0, coordinator_keys=keys)
    of_transaction = FindCoordinatorRequest(key_type=1, coordinator_keys=keys)
    assert hits(fields, ApiKey.FIND_COORDINATOR, 4, of_group) == 1
    assert hits(fields, ApiKey.FIND_COORDINATOR, 4, of_transaction) == 0
    fields = {"transactional_id": "readers", "drop": True}
    assert hits(fields, ApiKey.FIND_COORDINATOR, 4, of_transaction, of_group) == 1


def test_request_for_all_topics_matches_any_topic() -> None:
    everything = MetadataRequest(topics=None)
    fields = {"api": "Metadata", "topic": "orders", "partition": 3, "error": "LEADER_NOT_AVAILABLE"}
    assert hits(fields, ApiKey.METADATA, 9, everything) == 1


def test_followers_and_test_handles_count_only_by_their_client_id() -> None:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        replica_state=ReplicaState(replica_id=1),
        topics=[FetchTopic(topic="orders", partitions=[part])],
    )
    assert hits({"api": "Fetch", "drop": True}, ApiKey.FETCH, 12, request) == 0
    rules = Rules(SERVED)
    named = rules.add({"api": "Fetch", "client_id": "broker-1-fetcher", "drop": True})
    assert rules.find(ApiKey.FETCH, 12, "broker-1-fetcher", request, name_of) is named
    rules = Rules(SERVED)
    rules.add({"api": "Produce", "drop": True})
    assert rules.find(ApiKey.PRODUCE, 9, "odradek-testing", produce(), name_of) is None


@given(
    times=st.none() | st.integers(1, 5),
    skip=st.integers(0, 5),
    matching=st.lists(st.booleans(), max_size=20),
)
def test_budget_is_used_by_matching_requests_only(
    times: int | None, skip: int, matching: list[bool]
) -> None:
    rules = Rules(SERVED)
    rule = rules.add({"api": "Heartbeat", "group": "a", "drop": True, "times": times, "skip": skip})
    are_hit = [
        rules.find(ApiKey.HEARTBEAT, 4, None, heartbeat("a" if is_match else "b"), name_of) is rule
        for is_match in matching
    ]
    numbers = [number for number, is_match in enumerate(matching) if is_match]
    expected = numbers[skip:] if times is None else numbers[skip : skip + times]
    assert [number for number, is_hit in enumerate(are_hit) if is_hit] == expected
    assert rule.hits == len(expected)


def test_oldest_rule_that_is_not_used_up_applies() -> None:
    rules = Rules(SERVED)
    first = rules.add({"api": "Heartbeat", "drop": True, "times": 1})
    second = rules.add({"api": "Heartbeat", "close": True})
    matches = [rules.find(ApiKey.HEARTBEAT, 4, None, heartbeat("a"), name_of) for _ in range(3)]
    assert matches == [first, second, second]
    rules.remove(second.number)
    assert rules.find(ApiKey.HEARTBEAT, 4, None, heartbeat("a"), name_of) is None
    assert [row["hits"] for row in rules.rows()] == [1]
