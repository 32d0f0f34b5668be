"""Requests of tests of quotas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from math import inf, nan
from time import monotonic
from typing import Any, TypeVar

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from tests.support.pauses import pause
from tests.support.wire import Wire

T = TypeVar("T")

WAIT_S = 120
Names = Mapping[str, str | None]


def until(action: Callable[[], T], condition: Callable[[T], bool], what: str) -> T:
    """The first result of an action that fulfils the condition."""
    end_s = monotonic() + WAIT_S
    while not condition(result := action()):
        assert monotonic() < end_s, what
        pause()
    return result


def alter(
    names: Names, values: Mapping[str, float | None], *, validate_only: bool = False
) -> AlterClientQuotasRequest:
    """Set quotas of an entity; None removes one."""
    return AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequestEntryData(
                entity=[EntityData(entity_type=k, entity_name=v) for k, v in names.items()],
                ops=[
                    OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in values.items()
                ],
            )
        ],
        validate_only=validate_only,
    )


def set_quota(address: str, names: Names, **values: float | None) -> None:
    """Set quotas of an entity; brokers may apply them a moment later."""
    with Wire(address, client_id="admin") as client:
        response: AlterClientQuotasResponse = client.call(alter(names, values), 1)
    assert [entry.error_code for entry in response.entries] == [0], response


def described(
    address: str, *components: tuple[str, int, str | None], strict: bool = False
) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    """What DescribeClientQuotas returns: entity -> quotas."""
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=entity_type, match_type=kind, match=match)
            for entity_type, kind, match in components
        ],
        strict=strict,
    )
    with Wire(address, client_id="admin") as client:
        response = client.call(request, 1)
    assert response.error_code == 0, response
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity)): {
            value.key: value.value for value in entry.values
        }
        for entry in response.entries
    }


def metadata(*topics: str) -> MetadataRequest:
    """Asks for topics."""
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=topic) for topic in topics],
        allow_auto_topic_creation=True,
    )


def new_topic(name: str, partitions: int = 1) -> CreateTopicsRequest:
    """Creates a topic."""
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=False)


def created_on_first_use(client: Wire, names: list[str]) -> set[int]:
    """Create topics by their first use; the errors in the end."""
    response = until(
        lambda: client.call(metadata(*names), 8),
        lambda response: all(
            topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE for topic in response.topics
        ),
        "the topics are not created",
    )
    return {topic.error_code for topic in response.topics}


def assert_first_use_counts(address: str) -> None:
    """Topics that a client creates on first use on the controller are not refused, but count."""
    set_quota(address, {"client-id": "first"}, controller_mutation_rate=0.5)
    set_quota(address, {"client-id": "first-probe"}, controller_mutation_rate=0.01)
    numbers = count()
    with Wire(address, client_id="first-probe") as probe:
        until(
            lambda: probe.call(new_topic(f"first-probe-{next(numbers)}"), 7),
            lambda response: response.topics[0].error_code != 0,
            "the quotas are not in force",
        )
    with Wire(address, client_id="first") as client:
        # A burst of 5.5 partitions.
        names = [f"first-{number}" for number in range(30)]
        assert created_on_first_use(client, names) == {ErrorCode.NONE}
        refused = client.call(new_topic("first"), 7)
    assert refused.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert refused.throttle_time_ms > 0


ODD_LIMITS: Mapping[str, tuple[float, int, list[int]]] = {
    "nan": (nan, 0, [0, 0, 0]),
    "infinite": (inf, 0, [0, 0, 0]),
    "negative": (-1.0, 0, [89, 89, 0]),
    "below-all": (-inf, 0, [89, 89, 0]),
    "zero": (0.0, 1_000, [0, 89, 0]),
}
"""Client id -> (limit, throttle time of a request at that percentage, errors at that rate of
changes: two strict ones and one of before THROTTLING_QUOTA_EXCEEDED)."""


def assert_odd_limits(address: str) -> None:
    """Odd limits act as in Apache Kafka on a controller, and can be described."""
    for client_id, (limit, *_) in ODD_LIMITS.items():
        for name in ("request_percentage", "controller_mutation_rate"):
            set_quota(address, {"client-id": f"{client_id}-{name}"}, **{name: limit})
    set_quota(address, {"client-id": "zero-bytes"}, producer_byte_rate=0.0)
    set_quota(address, {"client-id": "last"}, request_percentage=0.0)
    with Wire(address, client_id="last") as probe:
        until(
            lambda: probe.call(metadata(), 8),
            lambda response: response.throttle_time_ms > 0,
            "the quotas are not in force",
        )
    stored = described(address)
    create_topic(address, "odd")
    for client_id, (limit, throttle_ms, codes) in ODD_LIMITS.items():
        for name in ("request_percentage", "controller_mutation_rate"):
            values = stored[("client-id", f"{client_id}-{name}"),]
            assert repr(values) == repr({name: limit})
        with Wire(address, client_id=f"{client_id}-request_percentage") as client:
            times = [client.call(metadata(), 8).throttle_time_ms for _ in range(2)]
        # Apache Kafka sends a negative time at a negative percentage, and clients wait for none.
        assert [max(0, time) for time in times] == [throttle_ms, throttle_ms], (client_id, times)
        with Wire(address, client_id=f"{client_id}-controller_mutation_rate") as client:
            responses = [
                client.call(new_topic(f"odd-{client_id}-{number}"), version)
                for number, version in enumerate((7, 7, 5))
            ]
        assert [response.topics[0].error_code for response in responses] == codes, client_id
        assert [response.throttle_time_ms for response in responses] == [0, 0, 0], client_id
    with Wire(address, client_id="zero-bytes") as client:
        assert [client.call(produce("odd", 9), 9).throttle_time_ms for _ in range(2)] == [0, 0]
    for entity, values in stored.items():
        set_quota(address, dict(entity), **dict.fromkeys(values))


def create_topic(address: str, topic: str) -> None:
    """Create a topic by its first use."""
    with Wire(address, client_id="admin") as client:
        until(
            lambda: client.call(metadata(topic), 8),
            lambda response: response.topics[0].error_code == 0,
            "the topic is not created",
        )


def produce(topic: str, size: int, *, acks: int = 1) -> ProduceRequest:
    """One record of about `size` bytes."""
    records = build_batch([Record(None, bytes(size), timestamp_ms=1_700_000_000_000)])
    data = PartitionProduceData(index=0, records=memoryview(records))
    return ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def fetch(topic: str, *, offset: int = 0, max_bytes: int = 1 << 30, **session: Any) -> FetchRequest:
    """All that there is, at once."""
    partition = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=max_bytes, current_leader_epoch=-1
    )
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
        **session,
    )
