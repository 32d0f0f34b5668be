"""What requests of the new protocol must say, and what bounds its groups."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from odradek.broker.group.consumer.topics import TopicDirectory
from odradek.broker.handlers.consumer_group_heartbeat import check_request
from odradek.broker.settings.groups import assignor_names
from odradek.broker.settings.types import InvalidValueError
from odradek.controller.image.image import BrokerImage, Image, PartitionImage, TopicImage
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)

INVALID = ErrorCode.INVALID_REQUEST


def request(epoch: int = 0, **changes: Any) -> ConsumerGroupHeartbeatRequest:
    """One that makes sense but for the changes."""
    fields: dict[str, Any] = {"group_id": "g", "member_id": "m"}
    if epoch == 0:
        fields |= {"rebalance_timeout_ms": 1, "subscribed_topic_names": [], "topic_partitions": []}
    return ConsumerGroupHeartbeatRequest(**{**fields, "member_epoch": epoch, **changes})


@pytest.mark.parametrize(
    ("refused", "version", "code", "message"),
    [
        (request(member_id=""), 1, INVALID, "MemberId can't be empty."),
        (request(1, member_id=" "), 0, INVALID, "MemberId can't be empty."),
        (request(-1, member_id=""), 0, INVALID, "MemberId can't be empty."),
        (request(group_id=""), 1, INVALID, "GroupId can't be empty."),
        (request(instance_id=" "), 1, INVALID, "InstanceId can't be empty."),
        (request(rack_id=""), 1, INVALID, "RackId can't be empty."),
        (
            request(rebalance_timeout_ms=-1),
            1,
            INVALID,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (
            request(topic_partitions=None),
            1,
            INVALID,
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            request(topic_partitions=[TopicPartitions(topic_id=UUID(int=1), partitions=[0])]),
            1,
            INVALID,
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            request(subscribed_topic_names=None),
            1,
            INVALID,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        ),
        (request(-2), 1, INVALID, "InstanceId can't be null."),
        (request(-3), 1, INVALID, "MemberEpoch is invalid."),
        (
            request(server_assignor="own"),
            1,
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            "ServerAssignor own is not supported. Supported assignors: uniform, range.",
        ),
    ],
)
def test_invalid_request_is_refused_with_kafkas_code_and_message(
    refused: ConsumerGroupHeartbeatRequest, version: int, code: ErrorCode, message: str
) -> None:
    with pytest.raises(BrokerError) as error:
        check_request(refused, version, ("uniform", "range"))
    assert (error.value.code, error.value.message) == (code, message)


@pytest.mark.parametrize(
    ("taken", "version"),
    [
        (request(), 1),
        (request(member_id=""), 0),
        (request(subscribed_topic_names=None, subscribed_topic_regex="a"), 1),
        (request(3, rebalance_timeout_ms=-1), 1),
        (request(-1), 0),
        (request(-2, instance_id="i"), 1),
        (request(server_assignor="range"), 1),
    ],
)
def test_valid_request_is_accepted(taken: ConsumerGroupHeartbeatRequest, version: int) -> None:
    check_request(taken, version, ("uniform", "range"))
    assert taken.group_id == "g"


def test_assignors_have_the_names_of_kafka_3_or_4() -> None:
    classes = "org.apache.kafka.coordinator.group.assignor."
    assert assignor_names(("range",)) == ("range",)
    assert assignor_names((f"{classes}UniformAssignor", "range")) == ("uniform", "range")
    for wrong in ((), ("sticky",)):
        with pytest.raises(InvalidValueError, match="uniform or range"):
            assignor_names(wrong)


def test_hash_of_topics_changes_with_what_an_assignment_rests_on() -> None:
    def topic(name: str, partitions: int, replica: int = 1) -> TopicImage:
        made = {index: PartitionImage(index, (replica,)) for index in range(partitions)}
        return TopicImage(name, UUID(int=len(name)), made)

    def image(*topics: TopicImage) -> Image:
        return Image(
            brokers={1: BrokerImage(1, 0, (), "r1"), 2: BrokerImage(2, 0, ())},
            topics={topic.name: topic for topic in topics},
            topic_names={topic.topic_id: topic.name for topic in topics},
        )

    now = image(topic("a", 1), topic("bb", 2))
    directory = TopicDirectory(lambda: now)
    assert directory.by_name("a") is None
    first = directory.refresh()
    facts = directory.by_name("bb")
    assert facts is not None
    assert (facts.partition_count, facts.racks) == (2, (("r1",), ("r1",)))
    assert directory.by_id(UUID(int=2)) == facts
    both = directory.hash_of(["bb", "a", "none"])
    assert both == directory.hash_of(["a", "bb"]) != directory.hash_of(["a"])
    assert directory.hash_of(["none"]) == 0
    assert directory.refresh() == first
    assert directory.names_version == 1
    for changed in (topic("bb", 3), topic("bb", 2, replica=2)):
        now = image(topic("a", 1), changed)
        assert directory.refresh() != first
        assert directory.hash_of(["a", "bb"]) != both
    assert directory.names_version == 1
    now = image(topic("a", 1), topic("bb", 2), topic("ccc", 1))
    directory.refresh()
    assert directory.names_version == 2
    assert directory.hash_of(["a", "bb"]) == both
