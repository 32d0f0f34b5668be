"""ElectLeaders and the reassignments: responses that one broker alone cannot give.

What a single broker responds is compared with Apache Kafka in tests/golden (chapter moves).
"""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.handlers import (
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
)
from odradek.broker.handlers.shared.handler import Context, Delayed
from odradek.broker.settings.load import make_settings
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from odradek.protocol.topic_partition import TopicPartition
from tests.support.cluster import Cluster
from tests.support.config_requests import context
from tests.support.handlers import outcome_of

CONTROLLER, OTHER = 1, 2


@pytest.fixture
def cluster() -> Cluster:
    """Topics `moved` and `kept` of one partition each, the former not led by its preferred."""
    made = Cluster()
    for broker_id in (CONTROLLER, OTHER, 3):
        made.add(broker_id)
    controller = made.active.controller
    for name in ("moved", "kept"):
        controller.admin.create_topic(CreateTopicSpec(name, assignments={0: (2, 3)})).result()
        made.settle()
    controller.requests.alter_reassignments({TopicPartition("moved", 0): (3, 2)}).result()
    made.settle()
    return made


def at(cluster: Cluster, broker_id: int) -> Context:
    return context(
        make_settings({"broker.id": str(broker_id)}), cluster.nodes[broker_id].controller
    )


def rows(response: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.topic, row.partition_id, row.error_code)
        for topic in response.replica_election_results
        for row in topic.partition_result
    ]


def elect(cluster: Cluster, broker_id: int, topics: list[str] | None) -> Delayed:
    named = (
        None
        if topics is None
        else [TopicPartitions(topic=topic, partitions=[0]) for topic in topics]
    )
    request = ElectLeadersRequest(election_type=0, topic_partitions=named)
    outcome = outcome_of(elect_leaders.run(at(cluster, broker_id), request))
    assert isinstance(outcome, Delayed)
    return outcome


def test_election_gets_its_response_when_the_metadata_have_the_leader(cluster: Cluster) -> None:
    # The controller's own metadata are updated at once, before those of the replicas.
    delayed = elect(cluster, CONTROLLER, ["moved", "kept"])
    response = outcome_of(delayed.attempt())
    assert sorted(rows(response)) == [("kept", 0, 84), ("moved", 0, 0)]
    assert response.error_code == 0


def test_election_that_the_metadata_do_not_show_in_time_is_timed_out(cluster: Cluster) -> None:
    node = cluster.nodes[CONTROLLER]
    receive = node.controller.receiver.receive
    held: list[Any] = []
    node.controller.receiver.receive = lambda *request: held.append(request)  # type: ignore[method-assign]
    delayed = elect(cluster, CONTROLLER, ["moved"])
    assert delayed.attempt() is None
    assert rows(outcome_of(delayed.expire())) == [("moved", 0, ErrorCode.REQUEST_TIMED_OUT)]
    for request in held:
        receive(*request)
    assert rows(outcome_of(delayed.attempt())) == [("moved", 0, 0)]


def test_election_of_all_leaves_out_what_needs_none(cluster: Cluster) -> None:
    delayed = elect(cluster, CONTROLLER, None)
    assert rows(outcome_of(delayed.attempt())) == [("moved", 0, 0)]


def test_broker_that_is_not_the_controller_refuses_each_partition(cluster: Cluster) -> None:
    delayed = elect(cluster, OTHER, ["moved", "nowhere"])
    with pytest.raises(BrokerError) as refusal:
        delayed.attempt()
    assert refusal.value.code is ErrorCode.NOT_CONTROLLER
    named = [TopicPartitions(topic="moved", partitions=[0, 4])]
    request = ElectLeadersRequest(election_type=0, topic_partitions=named)
    response = elect_leaders.failed(request, ErrorCode.NOT_CONTROLLER, None)
    assert (response.error_code, rows(response)) == (0, [("moved", 0, 41), ("moved", 4, 41)])


def test_reassignments_are_started_listed_and_refused_by_a_broker_that_is_not_the_controller(
    cluster: Cluster,
) -> None:
    targets = [[1, 2], [9]]
    topics = [
        ReassignableTopic(
            name="kept",
            partitions=[
                ReassignablePartition(partition_index=index, replicas=target)
                for index, target in enumerate(targets)
            ],
        )
    ]
    request = AlterPartitionReassignmentsRequest(topics=topics)
    begun = outcome_of(alter_partition_reassignments.run(at(cluster, CONTROLLER), request))
    (topic,) = begun.response.responses
    assert [
        (partition.partition_index, partition.error_code) for partition in topic.partitions
    ] == [(0, 0), (1, 39)]
    kept = [ListPartitionReassignmentsTopics(name="kept", partition_indexes=[0, 1])]
    for names in (None, kept):
        question = ListPartitionReassignmentsRequest(topics=names)
        listed = outcome_of(list_partition_reassignments.run(at(cluster, CONTROLLER), question))
        (topic_response,) = listed.response.topics
        (partition,) = topic_response.partitions
        assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == (
            [1, 2, 3],
            [1],
            [3],
        )
    with pytest.raises(BrokerError) as refusal:
        outcome_of(alter_partition_reassignments.run(at(cluster, OTHER), request))
    assert refusal.value.code is ErrorCode.NOT_CONTROLLER
    response = alter_partition_reassignments.failed(request, refusal.value.code, None)
    assert (response.error_code, response.error_message) == (
        41,
        "This is not the correct controller for this cluster.",
    )
