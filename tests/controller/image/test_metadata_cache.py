"""What the cache remembers besides the image: topics that were deleted."""

from __future__ import annotations

from uuid import UUID

from odradek.controller.image.control_requests import UpdateMetadata, UpdateMetadataPartition
from odradek.controller.image.image import PartitionState
from odradek.controller.image.metadata_cache import DELETED_MAX, MetadataCache

LEADER_DURING_DELETE = -2


def update(*topics: str, leader: int = 1) -> UpdateMetadata:
    return UpdateMetadata(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=1,
        partitions=tuple(
            UpdateMetadataPartition(
                topic=topic,
                topic_id=UUID(int=7),
                partition=0,
                state=PartitionState(leader, 0, (1,), 0, 1),
                replicas=(1,),
                offline_replicas=(),
            )
            for topic in topics
        ),
        brokers=(),
    )


def delete(cache: MetadataCache, *topics: str) -> None:
    cache.apply(update(*topics, leader=LEADER_DURING_DELETE), {}, removes_topics=False)


def test_topic_counts_as_deleted_until_it_is_created_again() -> None:
    cache = MetadataCache()
    cache.apply(update("a", "b"), {}, removes_topics=False)
    delete(cache, "a", "never-made")
    assert [cache.was_deleted(name) for name in ("a", "b", "never-made")] == [True, False, False]
    cache.apply(update("a"), {}, removes_topics=False)
    assert not cache.was_deleted("a")
    delete(cache, "a")
    assert cache.was_deleted("a")


def test_topics_that_a_full_update_lacks_count_as_deleted() -> None:
    cache = MetadataCache()
    cache.apply(update("a", "b"), {}, removes_topics=False)
    cache.apply(update("b"), {}, removes_topics=True)
    assert cache.was_deleted("a")
    assert not cache.was_deleted("b")


def test_the_last_deleted_topics_are_remembered() -> None:
    cache = MetadataCache()
    names = [f"topic-{number}" for number in range(DELETED_MAX + 10)]
    cache.apply(update(*names), {}, removes_topics=False)
    for name in names:
        delete(cache, name)
    assert [name for name in names if not cache.was_deleted(name)] == names[:10]
