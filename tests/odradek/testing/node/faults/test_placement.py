"""Requests are divided, and errors placed, for any API that names topics and partitions."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final
from uuid import UUID

import pytest

from odradek.broker.handlers.shared.table import HANDLERS
from odradek.protocol.api_keys import ApiKey, messages_of
from odradek.protocol.compiler import decoder, encoder
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.testing.node.faults.naming import NameReader
from odradek.testing.node.faults.placement import clear_top, divide, merge, place
from tests.support.declarations import ValueMaker

CODE: Final = ErrorCode.KAFKA_STORAGE_ERROR
PLACES: Final[dict[ApiKey, tuple[str, str, str, str, str, str, str, str]]] = {
    ApiKey.PRODUCE: (
        *("topic_data", "name", "partition_data", "index"),
        *("responses", "partition_responses", "index", "error_code"),
    ),
    ApiKey.FETCH: (
        *("topics", "topic", "partitions", "partition"),
        *("responses", "partitions", "partition_index", "error_code"),
    ),
    ApiKey.LIST_OFFSETS: (
        *("topics", "name", "partitions", "partition_index"),
        *("topics", "partitions", "partition_index", "error_code"),
    ),
    ApiKey.OFFSET_COMMIT: (
        *("topics", "name", "partitions", "partition_index"),
        *("topics", "partitions", "partition_index", "error_code"),
    ),
    ApiKey.TXN_OFFSET_COMMIT: (
        *("topics", "name", "partitions", "partition_index"),
        *("topics", "partitions", "partition_index", "error_code"),
    ),
    ApiKey.DELETE_RECORDS: (
        *("topics", "name", "partitions", "partition_index"),
        *("topics", "partitions", "partition_index", "error_code"),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        *("v3_and_below_topics", "name", "partitions", ""),
        *("results_by_topic_v3_and_below", "results_by_partition"),
        *("partition_index", "partition_error_code"),
    ),
}
"""Where the topics and partitions of requests and responses are, written by hand."""
VERSIONS: Final = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 5,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.TXN_OFFSET_COMMIT: 3,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
}
TOPICS: Final = ("orders", "payments", "refunds")


def no_name(topic_id: UUID) -> str | None:
    return None


def request_for(api: ApiKey, seed: int) -> Any:
    """A random request about partitions 0 to 2 of three topics."""
    topics, name, partitions, index, *_ = PLACES[api]
    maker = ValueMaker(f"{api} {seed}", is_small=True)
    request = maker.message(messages_of(api)[0], VERSIONS[api])
    made = [maker.message(messages_of(api)[0], VERSIONS[api]) for _ in range(40)]
    topics_of_request = [topic for message in made for topic in getattr(message, topics) or ()]
    parts = [part for topic in topics_of_request for part in getattr(topic, partitions)]
    elements = topics_of_request[:3]
    assert len(elements) == 3
    for number, topic in enumerate(elements):
        setattr(topic, name, TOPICS[number])
        count = 1 + (seed + number) % 3
        if not index:
            setattr(topic, partitions, list(range(count)))
            continue
        own = [maker.message(type(parts[0]), VERSIONS[api]) for _ in range(count)]
        for position, part in enumerate(own):
            setattr(part, index, position)
        setattr(topic, partitions, own)
    setattr(request, topics, elements)
    return request


def named(request: Any, api: ApiKey) -> list[tuple[str, int]]:
    topics, name, partitions, index, *_ = PLACES[api]
    return [
        (getattr(topic, name), getattr(part, index) if index else part)
        for topic in getattr(request, topics)
        for part in getattr(topic, partitions)
    ]


def failed(request: Any, api: ApiKey, code: ErrorCode) -> Any:
    (module,) = (row.module for row in HANDLERS if row.key == api)
    return import_module(f"odradek.broker.handlers.{module}").failed(request, code, None)


def errors(response: Any, api: ApiKey) -> dict[tuple[str, int], int]:
    _, name, _, _, topics, partitions, index, error = PLACES[api]
    return {
        (getattr(topic, name), getattr(part, index)): getattr(part, error)
        for topic in getattr(response, topics)
        for part in getattr(topic, partitions)
    }


@pytest.mark.parametrize("api", PLACES)
def test_error_is_in_the_response_of_the_named_partition_only(api: ApiKey) -> None:
    version = VERSIONS[api]
    for seed in range(20):
        request = request_for(api, seed)
        everything = named(request, api)
        topic, partition = everything[seed % len(everything)]
        criteria: dict[str, str | int] = {"topic": topic, "partition": partition}
        if seed % 3 == 0:
            del criteria["partition"]
        hit = [
            place_of_error
            for place_of_error in everything
            if place_of_error[0] == topic
            and place_of_error[1] == criteria.get("partition", place_of_error[1])
        ]
        reader = NameReader(request, version, no_name)
        part, rest = divide(request, criteria, reader)
        assert named(part, api) == hit
        assert named(request, api) == everything
        if rest is None:
            assert hit == everything
            continue
        assert named(rest, api) == [
            place_of_error for place_of_error in everything if place_of_error not in hit
        ]
        response = failed(rest, api, ErrorCode.NONE)
        merge(response, failed(part, api, CODE), reader)
        cls = messages_of(api)[1]
        sent = encoder(cls, version)(response)
        response, end = decoder(cls, version)(memoryview(sent), 0)
        assert end == len(sent)
        assert errors(response, api) == {
            place_of_error: CODE if place_of_error in hit else 0 for place_of_error in everything
        }
        assert len({id(result) for result in getattr(response, PLACES[api][4])}) == 3
        assert getattr(response, "error_code", 0) == 0


@pytest.mark.parametrize("api", PLACES)
def test_error_is_placed_in_a_response_that_was_made(api: ApiKey) -> None:
    for seed in range(5):
        request = request_for(api, seed)
        everything = named(request, api)
        topic, partition = everything[-1 - seed % len(everything)]
        response = failed(request, api, ErrorCode.NONE)
        reader = NameReader(request, VERSIONS[api], no_name)
        count = place(response, {"topic": topic, "partition": partition}, CODE, reader)
        assert count == 1
        codes = errors(response, api)
        assert codes == {
            place_of_error: CODE if place_of_error == (topic, partition) else 0
            for place_of_error in everything
        }


@pytest.mark.parametrize("api", PLACES)
def test_request_without_the_named_topic_is_not_divided(api: ApiKey) -> None:
    request = request_for(api, 1)
    reader = NameReader(request, VERSIONS[api], no_name)
    assert divide(request, {"topic": "unknown"}, reader) == (None, request)
    part, rest = divide(request, {}, reader)
    assert part is request
    assert rest is None


def test_metadata_of_all_topics_gets_the_error_at_its_topic_or_partition() -> None:
    def response() -> MetadataResponse:
        partition = MetadataResponsePartition(
            error_code=0, partition_index=4, leader_id=1, replica_nodes=[], isr_nodes=[]
        )
        topics = [
            MetadataResponseTopic(
                error_code=0, name=name, is_internal=False, partitions=[partition]
            )
            for name in ("orders",)
        ]
        return MetadataResponse(brokers=[], topics=topics)

    request = messages_of(ApiKey.METADATA)[0](topics=None)
    reader = NameReader(request, 9, no_name)
    metadata = response()
    assert place(metadata, {"topic": "orders", "partition": 4}, CODE, reader) == 1
    assert metadata.topics[0].error_code == 0
    assert metadata.topics[0].partitions[0].error_code == CODE
    other = response()
    assert place(other, {"topic": "orders"}, CODE, reader) == 1
    assert other.topics[0].error_code == CODE
    assert other.topics[0].partitions[0].error_code == 0


def test_error_of_parts_is_not_one_of_the_whole_fetch() -> None:
    request = request_for(ApiKey.FETCH, 0)
    response = failed(request, ApiKey.FETCH, CODE)
    assert response.error_code == CODE
    clear_top(response, 12)
    assert response.error_code == 0
    assert set(errors(response, ApiKey.FETCH).values()) == {CODE}
