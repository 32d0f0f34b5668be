"""A scripted follower against our leader and against Apache Kafka's: the same responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.support.scripted_follower import (
    LeadingBroker,
    Replicated,
    apache_leader,
    only_partition,
    our_leader,
    size,
)

LEADERS = [
    pytest.param(our_leader, id="odradek"),
    pytest.param(apache_leader, id="apache", marks=pytest.mark.judge),
]
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
SETTINGS = {
    "offsets.commit.timeout.ms": "60000",
    "broker.rack": "near",
    "replica.selector.class": RACK_AWARE,
    "offsets.topic.num.partitions": "1",
}
SHORT_LAG = {"replica.lag.time.max.ms": "1500", "replica.fetch.wait.max.ms": "500"}
LONG_MS = 60_000
SILENCE_S = 0.5


@pytest.fixture(scope="module", params=LEADERS)
def leading(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LeadingBroker]:
    with request.param(tmp_path_factory.mktemp("leader"), SETTINGS) as broker:
        yield broker


@pytest.fixture(scope="module", params=LEADERS)
def with_short_lag(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LeadingBroker]:
    """Followers have 1.5 s to catch up."""
    with request.param(tmp_path_factory.mktemp("leader"), {**SETTINGS, **SHORT_LAG}) as broker:
        yield broker


@pytest.fixture
def topics() -> Iterator[list[Replicated]]:
    made: list[Replicated] = []
    yield made
    for topic in made:
        topic.close()


def test_acks_all_waits_until_the_follower_has_the_record(
    leading: LeadingBroker, topics: list[Replicated]
) -> None:
    topic = Replicated(leading, "waits")
    topics.append(topic)
    producer = topic.wire()
    topic.produce(producer)
    first = topic.fetch(0)
    while size(first) == 0:
        first = topic.fetch(0)
    assert (first.error_code, first.high_watermark, first.last_stable_offset) == (0, 0, 0)
    assert producer.is_silent(SILENCE_S), "the follower has not stored it yet"
    for consumer in (-1, -2):
        before = topic.consume(0) if consumer == -1 else topic.fetch(0, replica_id=-2, version=14)
        assert (before.error_code, size(before), before.high_watermark) == (0, 0, 0)

    topic.fetch(1)
    assert topic.produced(producer) == (0, 0)
    assert topic.fetch(1, version=4).high_watermark == 1
    again = topic.fetch(1)
    assert (again.high_watermark, size(again)) == (1, 0)
    after = topic.consume(0)
    assert (after.high_watermark, size(after)) == (1, size(first))


def test_fetch_of_a_follower_waits_for_records_and_not_for_the_high_watermark(
    leading: LeadingBroker, topics: list[Replicated]
) -> None:
    topic = Replicated(leading, "parked")
    topics.append(topic)
    topic.follower.send(topic.fetch_request(0, wait_ms=LONG_MS), 17)
    assert topic.follower.is_silent(SILENCE_S)
    producer = topic.wire()
    topic.produce(producer, acks=1)
    partition = only_partition(topic.follower.receive(1, 17))
    assert size(partition) > 0
    assert topic.produced(producer) == (0, 0)
    waiting = topic.wire()
    waiting.send(topic.fetch_request(0, replica_id=-1, wait_ms=LONG_MS), 17)
    assert waiting.is_silent(SILENCE_S)
    topic.fetch(1, wait_ms=1)
    consumed = only_partition(waiting.receive(1, 17))
    assert (size(consumed), consumed.high_watermark) == (size(partition), 1)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"replica_id": 5}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica_id": 5, "epoch": -1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"replica_id": 5, "epoch": -1, "version": 11}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"replica_id": 0}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"epoch": 7}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica_id": 5, "epoch": 7}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"offset": 1}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"last_epoch": 3}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"version": 4}, ErrorCode.NONE),
        ({"version": 14}, ErrorCode.NONE),
        ({"replica_id": -2}, ErrorCode.NONE),
    ],
)
def test_fetch_of_a_follower_has_the_errors_of_kafka(
    leading: LeadingBroker, topics: list[Replicated], fields: dict[str, int], expected: ErrorCode
) -> None:
    name = "errors-" + "-".join(f"{key}{value}" for key, value in fields.items())
    topic = Replicated(leading, name)
    topics.append(topic)
    partition = topic.fetch(**{"offset": 0, **fields})
    assert ErrorCode(partition.error_code) is expected
    assert partition.high_watermark == (-1 if expected else 0)
    assert partition.log_start_offset == (-1 if expected or fields.get("version") == 4 else 0)
    assert partition.aborted_transactions is None


def test_older_epoch_is_fenced_and_a_diverging_log_gets_its_end_offset(
    leading: LeadingBroker, topics: list[Replicated]
) -> None:
    topic = Replicated(leading, "epochs")
    topics.append(topic)
    producer = topic.wire()
    for offset in range(2):
        topic.produce(producer, acks=1)
        assert topic.produced(producer) == (0, offset)
    leading.bury()
    topic.until(lambda: topic.in_sync() == [0], "the follower is out of sync")
    leading.revive()
    topic.produce(producer)
    assert topic.produced(producer) == (0, 2)
    fenced = topic.fetch(2)
    assert ErrorCode(fenced.error_code) is ErrorCode.FENCED_LEADER_EPOCH
    topic.leader_epoch = topic.described().leader_epoch
    assert topic.leader_epoch > 0
    diverging = topic.fetch(3, last_epoch=0)
    assert diverging.error_code == 0
    assert diverging.diverging_epoch is not None
    assert (diverging.diverging_epoch.epoch, diverging.diverging_epoch.end_offset) == (0, 2)
    assert size(diverging) == 0
    topic.until(
        lambda: (
            size(topic.fetch(2, last_epoch=0)) > 0 and topic.fetch(3) and topic.in_sync() != [0]
        ),
        "the follower is in sync after it has truncated",
    )
    assert topic.fetch(3).high_watermark == 3


def test_acks_all_goes_on_when_the_follower_dies(
    leading: LeadingBroker, topics: list[Replicated]
) -> None:
    topic = Replicated(leading, "dies")
    topics.append(topic)
    producer = topic.wire()
    topic.produce(producer)
    assert producer.is_silent(SILENCE_S)
    leading.bury()
    assert topic.produced(producer) == (0, 0)
    leading.revive()


def test_too_few_in_sync_replicas_refuse_records_and_never_commit_them(
    leading: LeadingBroker, topics: list[Replicated]
) -> None:
    topic = Replicated(leading, "few", min_insync_replicas="2")
    topics.append(topic)
    producer = topic.wire()
    topic.produce(producer, timeout_ms=3_000)
    topic.until(lambda: size(topic.fetch(0)) > 0, "it is appended while both are in sync")
    leading.bury()
    assert topic.produced(producer) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    topic.produce(producer)
    assert topic.produced(producer) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    topic.produce(producer, acks=1)
    assert topic.produced(producer) == (0, 1)
    leading.revive()
    assert topic.consume(0, epoch=-1).high_watermark == 0
    topic.leader_epoch = topic.described().leader_epoch
    topic.until(lambda: topic.fetch(2) and topic.in_sync() == [0, 1], "the follower is in sync")
    topic.until(lambda: topic.fetch(2).high_watermark == 2, "all is committed")


def test_deletion_of_records_waits_for_the_follower(
    leading: LeadingBroker, topics: list[Replicated]
) -> None:
    topic = Replicated(leading, "deletes")
    topics.append(topic)
    producer = topic.wire()
    for _ in range(3):
        topic.produce(producer, acks=1)
        topic.produced(producer)
    topic.fetch(3)
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=topic.name, partitions=[DeleteRecordsPartition(partition_index=0, offset=2)]
            )
        ],
        timeout_ms=1_000,
    )
    deleter = topic.wire()
    (late,) = deleter.call(request, 2).topics[0].partitions
    assert (late.error_code, late.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    request.timeout_ms = LONG_MS
    deleter.send(request, 2)
    partition = topic.fetch(3)
    assert partition.log_start_offset == 2
    topic.fetch(3, log_start=1)
    assert deleter.is_silent(SILENCE_S)
    topic.fetch(3, log_start=2)
    (done,) = deleter.receive(21, 2).topics[0].partitions
    assert (done.error_code, done.low_watermark) == (0, 2)


def test_silent_follower_leaves_the_in_sync_replicas_and_comes_back(
    with_short_lag: LeadingBroker, topics: list[Replicated]
) -> None:
    topic = Replicated(with_short_lag, "silent")
    topics.append(topic)
    producer = topic.wire()
    epoch = topic.described().leader_epoch
    topic.produce(producer)
    assert topic.produced(producer) == (0, 0), "the in-sync replicas shrink"
    topic.until(lambda: topic.in_sync() == [0], "the shrink is in the leader's metadata")
    assert topic.described().leader_epoch == epoch
    assert topic.consume(0).high_watermark == 1
    assert size(topic.fetch(0)) > 0
    assert topic.in_sync() == [0], "it has not what is committed"
    topic.until(lambda: topic.fetch(1) and topic.in_sync() == [0, 1], "it is in sync again")
    topic.produce(producer, timeout_ms=LONG_MS)
    topic.until(lambda: size(topic.fetch(1)) > 0, "the next record")
    topic.fetch(2)
    assert topic.produced(producer) == (0, 1)


def test_consumer_is_sent_to_the_in_sync_replica_in_its_rack_that_has_the_offset(
    leading: LeadingBroker, topics: list[Replicated]
) -> None:
    topic = Replicated(leading, "racks")
    topics.append(topic)
    producer = topic.wire()
    for offset in range(3):
        topic.produce(producer, acks=1)
        assert topic.produced(producer) == (0, offset)
    assert topic.consume(0, rack="far").preferred_read_replica == -1, "it has not fetched"
    topic.fetch(2, log_start=1)
    topic.fetch(2, log_start=1)
    preferred = topic.consume(2, rack="far", wait_ms=LONG_MS)
    assert (preferred.error_code, preferred.preferred_read_replica) == (0, 1)
    assert (size(preferred), preferred.high_watermark, preferred.log_start_offset) == (0, 2, 0)
    assert topic.consume(0, rack="far").preferred_read_replica == -1
    assert topic.consume(3, rack="far").preferred_read_replica == -1
    for rack in ("near", "elsewhere", ""):
        assert topic.consume(1, rack=rack).preferred_read_replica == -1
    assert size(topic.consume(1, rack="near")) > 0
    assert topic.consume(1, rack="far", version=11).preferred_read_replica == 1
    assert topic.fetch(2, rack="far", log_start=1).preferred_read_replica == -1
    fenced = topic.consume(1, rack="far", epoch=9)
    assert ErrorCode(fenced.error_code) is ErrorCode.UNKNOWN_LEADER_EPOCH
    leading.bury()
    topic.until(lambda: topic.in_sync() == [0], "the follower is out of sync")
    assert topic.consume(1, rack="far", epoch=-1).preferred_read_replica == -1
    leading.revive()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"replica_id": -1}, ErrorCode.NONE),
        ({"replica_id": -1, "version": 11}, ErrorCode.NONE),
        ({"replica_id": -1, "version": 10}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"replica_id": -2, "version": 10}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"replica_id": -2}, ErrorCode.NONE),
        ({"replica_id": 1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"replica_id": -1, "epoch": 7}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica_id": -1, "offset": 1}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_replica_that_does_not_lead_serves_consumers_only(
    leading: LeadingBroker, topics: list[Replicated], fields: dict[str, int], expected: ErrorCode
) -> None:
    name = "follows-" + "-".join(f"{key}{value}" for key, value in fields.items())
    topic = Replicated(leading, name, (1, 0))
    topics.append(topic)
    partition = topic.fetch(**{"offset": 0, **fields})
    assert ErrorCode(partition.error_code) is expected
    assert partition.high_watermark == (-1 if expected else 0)


@pytest.mark.parametrize("replicas", [(1, 0), (1,)])
def test_refusal_names_the_leader_and_its_address(
    leading: LeadingBroker, topics: list[Replicated], replicas: tuple[int, ...]
) -> None:
    topic = Replicated(leading, f"elsewhere-{len(replicas)}", replicas)
    topics.append(topic)
    named = ((1, topic.leader_epoch), [topic.node(1)])
    for version, expected in ((9, (None, [])), (10, named), (11, named)):
        response = topic.admin.call(topic.produce_request(), version)
        (refused,) = response.responses[0].partition_responses
        assert ErrorCode(refused.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert leader_named(response, refused) == expected
    for version, expected in ((15, (None, [])), (16, named), (17, named)):
        # A follower: a consumer may read any replica.
        response = topic.follower.call(topic.fetch_request(0, version=version), version)
        refused = only_partition(response)
        assert ErrorCode(refused.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert leader_named(response, refused) == expected


def leader_named(
    response: Any, refused: Any
) -> tuple[tuple[int, int] | None, list[tuple[int, str, int, str | None]]]:
    """(leader, its epoch) of a refused partition, and the brokers that the response lists."""
    leader = refused.current_leader
    return (
        None if leader is None else (leader.leader_id, leader.leader_epoch),
        [
            (endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack)
            for endpoint in response.node_endpoints
        ],
    )


def test_incremental_fetch_of_a_follower_lists_what_changed(
    leading: LeadingBroker, topics: list[Replicated]
) -> None:
    topic = Replicated(leading, "session")
    topics.append(topic)
    producer = topic.wire()
    topic.produce(producer, acks=1)
    topic.produced(producer)
    request = topic.fetch_request(0)
    request.session_epoch = 0
    first = topic.follower.call(request, 17)
    assert first.session_id != 0
    assert size(only_partition(first)) > 0
    request = topic.fetch_request(1)
    request.session_id, request.session_epoch = first.session_id, 1
    topic.follower.call(request, 17)
    request.topics, request.session_epoch = [], 2
    responses = [topic.follower.call(request, 17)]
    request.session_epoch = 3
    responses.append(topic.follower.call(request, 17))
    listed = [part for response in responses for part in response.responses]
    assert all(part.partitions[0].high_watermark == 1 for part in listed)
    assert responses[1].responses == []
    assert topic.consume(0).high_watermark == 1


def test_commit_of_offsets_waits_for_the_follower_or_its_death(
    leading: LeadingBroker, topics: list[Replicated]
) -> None:
    data = Replicated(leading, "data")
    topics.append(data)
    topic = Replicated(leading, "__consumer_offsets", cleanup_policy="compact")
    topics.append(topic)
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=data.name,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=5, committed_metadata=""
                    )
                ],
            )
        ],
    )

    def error_of(response: OffsetCommitResponse) -> ErrorCode:
        return ErrorCode(response.topics[0].partitions[0].error_code)

    client = topic.wire()
    client.send(request, 8)
    while not client.is_silent(SILENCE_S):
        # The group is being loaded.
        assert error_of(client.receive(8, 8)) is not ErrorCode.NONE
        client.send(request, 8)
    topic.fetch(1)
    assert error_of(client.receive(8, 8)) is ErrorCode.NONE
    client.send(request, 8)
    assert client.is_silent(SILENCE_S)
    leading.bury()
    assert error_of(client.receive(8, 8)) is ErrorCode.NONE, "another epoch of the same leader"
    leading.revive()
    assert error_of(client.call(request, 8)) is ErrorCode.NONE
