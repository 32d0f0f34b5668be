"""The state machine of topic deletion."""

from __future__ import annotations

from uuid import UUID

from odradek.controller.decide.deletion import DeleteReplicas, Deletions, RemoveTopic
from odradek.controller.image.image import BrokerImage, Image, PartitionImage, TopicImage

TOPIC = TopicImage("t", UUID(int=5), {0: PartitionImage(0, (1, 2)), 1: PartitionImage(1, (2,))})
ALL = (("t", 0, 1), ("t", 0, 2), ("t", 1, 2))


def image(*live: int) -> Image:
    return Image(
        brokers={broker_id: BrokerImage(broker_id, 1, ()) for broker_id in live}
    ).with_topics([TOPIC])


def queued() -> Deletions:
    deletions = Deletions()
    deletions.enqueue(["t"])
    return deletions


def test_topic_is_removed_after_all_replicas_are_deleted() -> None:
    deletions = queued()
    assert deletions.resume(image(1, 2)) == [DeleteReplicas("t", ALL)]
    assert deletions.resume(image(1, 2)) == []
    deletions.on_deleted(ALL[:2])
    assert deletions.resume(image(1, 2)) == []
    deletions.on_deleted(ALL[2:])
    assert deletions.resume(image(1, 2)) == [RemoveTopic("t")]
    deletions.forget("t")
    assert "t" not in deletions
    assert deletions.resume(image(1, 2)) == []


def test_topic_without_partitions_is_removed_at_once() -> None:
    deletions = Deletions()
    deletions.enqueue(["empty"])
    assert deletions.resume(image(1)) == [RemoveTopic("empty")]


def test_offline_replica_halts_the_deletion_until_its_broker_registers() -> None:
    deletions = queued()
    assert deletions.resume(image(1)) == [DeleteReplicas("t", ALL[:1])]
    deletions.on_deleted(ALL[:1])
    assert deletions.resume(image(1)) == []
    deletions.on_brokers_started(image(1, 7), [7])
    assert deletions.resume(image(1, 7)) == []
    deletions.on_brokers_started(image(1, 2), [2])
    assert deletions.resume(image(1, 2)) == [DeleteReplicas("t", ALL[1:])]
    deletions.on_deleted(ALL[1:])
    assert deletions.resume(image(1, 2)) == [RemoveTopic("t")]


def test_error_of_a_broker_halts_the_deletion() -> None:
    deletions = queued()
    deletions.resume(image(1, 2))
    deletions.on_deleted(ALL[:1])
    deletions.on_failed(ALL[1:2])
    deletions.on_deleted(ALL[2:])
    assert deletions.resume(image(1, 2)) == []
    deletions.on_brokers_started(image(1, 2), [2])
    assert deletions.resume(image(1, 2)) == [DeleteReplicas("t", ALL[1:2])]


def test_replica_that_counts_as_offline_before_its_broker_has_deleted_it_halts_nothing() -> None:
    """The response to the LeaderAndIsr that a full disk refused comes after the StopReplica."""
    deletions = queued()
    deletions.resume(image(1, 2))
    deletions.on_failed(ALL[1:2])
    deletions.on_deleted(ALL)
    assert deletions.resume(image(1, 2)) == [RemoveTopic("t")]


def test_deletion_that_halted_for_a_replica_which_is_deleted_after_all_goes_on() -> None:
    """Another broker has registered in between; only the late response can go on for it."""
    deletions = queued()
    assert deletions.resume(image(2)) == [DeleteReplicas("t", ALL[1:])]
    deletions.on_brokers_started(image(1, 2), [1])
    assert deletions.resume(image(1, 2)) == []
    deletions.on_failed(ALL[1:])
    deletions.on_deleted(ALL[1:])
    assert deletions.resume(image(1, 2)) == [DeleteReplicas("t", ALL[:1])]


def test_responses_for_topics_that_are_not_being_deleted_are_ignored() -> None:
    deletions = Deletions()
    deletions.on_deleted(ALL)
    deletions.on_failed(ALL)
    assert list(deletions) == []
    deletions.enqueue(["t"])
    deletions.on_deleted(ALL)
    assert deletions.resume(image(1, 2)) == [DeleteReplicas("t", ALL)]
