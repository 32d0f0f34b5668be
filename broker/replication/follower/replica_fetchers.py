"""The fetchers of a broker: `num.replica.fetchers` for each broker that leads what it follows.

Source: Kafka's AbstractFetcherManager, ReplicaFetcherManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from zlib import crc32

from odradek.broker.replication.leadership import LeadershipObserver
from odradek.broker.replication.partition import Partition

if TYPE_CHECKING:
    from odradek.broker.replication.follower.replica_fetcher import ReplicaFetcher

FetcherKey = tuple[int, int]
"""Leading broker, number of the fetcher."""


class ReplicaFetchers(LeadershipObserver):
    """Follows what another broker leads.

    make_fetcher  called with the id of a leading broker
    count         num.replica.fetchers
    """

    def __init__(self, make_fetcher: Callable[[int], ReplicaFetcher], count: int) -> None:
        self._make_fetcher = make_fetcher
        self._count = count
        self._fetchers: dict[FetcherKey, ReplicaFetcher] = {}
        self._following: dict[Partition, ReplicaFetcher] = {}
        self._is_closed = False
        self._is_stopping = False

    @property
    def fetchers(self) -> tuple[ReplicaFetcher, ...]:
        """The fetchers that have partitions."""
        return tuple(self._fetchers.values())

    def lag_max(self) -> int:
        """How many records the partition that is furthest behind its leader lacks."""
        return max(
            (
                replica.lag or 0
                for fetcher in self._fetchers.values()
                for replica in fetcher.state.replicas.values()
            ),
            default=0,
        )

    def on_leader_change(self, partition: Partition) -> None:
        """Follow the partition's leader in its leader epoch; or no longer, when this broker leads
        it or does not have it any more."""
        was_followed = self._remove(partition)
        leader_id = partition.leader_id
        if self._is_closed or (self._is_stopping and not was_followed):
            return
        if not partition.is_following or partition.log.is_offline:
            return
        number = (crc32(partition.topic.encode()) + partition.index) % self._count
        fetcher = self._fetchers.get((leader_id, number))
        if fetcher is None:
            fetcher = self._make_fetcher(leader_id)
            self._fetchers[leader_id, number] = fetcher
        self._following[partition] = fetcher
        fetcher.add(partition)

    def on_request_applied(self) -> None:
        """Begin to fetch what was added; end the connections of which nothing is left."""
        for key, fetcher in list(self._fetchers.items()):
            if len(fetcher):
                fetcher.start()
            else:
                del self._fetchers[key]
                fetcher.close()

    def drop_offline(self) -> None:
        """A log directory has failed: its partitions are not followed any more."""
        for partition in [candidate for candidate in self._following if candidate.log.is_offline]:
            self._remove(partition)

    def set_count(self, count: int) -> None:
        """num.replica.fetchers has changed: distribute the partitions again."""
        if count == self._count:
            return
        self._count = count
        for partition in list(self._following):
            self.on_leader_change(partition)
        self.on_request_applied()

    def add_no_more(self) -> None:
        """This broker is about to stop: follow only what it follows already, whichever broker
        leads it then.

        Differs from Kafka, which follows the new leaders of what it led.  They take such a broker
        for one that may soon be in sync, and acks=all waits for it.
        """
        self._is_stopping = True

    def close(self) -> None:
        """Follow nothing any more."""
        self._is_closed = True
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._following.clear()

    def _remove(self, partition: Partition) -> bool:
        """Returns whether it was followed."""
        fetcher = self._following.pop(partition, None)
        if fetcher is not None:
            fetcher.remove(partition)
        return fetcher is not None
