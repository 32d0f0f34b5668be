"""Deleting topics step by step."""

from __future__ import annotations

from uuid import UUID

from odradek.controller.decide.deletion import DeleteReplicas, Deletions, RemoveTopic
from odradek.controller.image import BrokerImage, Image, PartitionImage, TopicImage

TOPIC = TopicImage("t", UUID(int=5), {0: PartitionImage(0, (1, 2)), 1: PartitionImage(1, (2,))})
ALL = (("t", 0, 1), ("t", 0, 2), ("t", 1, 2))


def image(*live: int) -> Image:
    return Image(brokers={one: BrokerImage(one, 1, ()) for one in live}).with_topics([TOPIC])


def queued() -> Deletions:
    deletions = Deletions()
    deletions.enqueue(["t"])
    return deletions


def test_all_replicas_are_deleted_then_the_topic_goes() -> None:
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


def test_a_topic_without_partitions_goes_at_once() -> None:
    deletions = Deletions()
    deletions.enqueue(["empty"])
    assert deletions.resume(image(1)) == [RemoveTopic("empty")]


def test_a_dead_replica_halts_the_topic_until_its_broker_comes() -> None:
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


def test_a_broker_that_refuses_halts_the_topic() -> None:
    deletions = queued()
    deletions.resume(image(1, 2))
    deletions.on_deleted(ALL[:1])
    deletions.on_failed(ALL[1:2])
    deletions.on_deleted(ALL[2:])
    assert deletions.resume(image(1, 2)) == []
    deletions.on_brokers_started(image(1, 2), [2])
    assert deletions.resume(image(1, 2)) == [DeleteReplicas("t", ALL[1:2])]


def test_answers_about_topics_that_are_not_going_are_ignored() -> None:
    deletions = Deletions()
    deletions.on_deleted(ALL)
    deletions.on_failed(ALL)
    assert deletions.topics() == []
    deletions.enqueue(["t"])
    deletions.on_deleted(ALL)
    assert deletions.resume(image(1, 2)) == [DeleteReplicas("t", ALL)]
