"""Transactions over three brokers stay atomic while coordinators and leaders are killed."""

from __future__ import annotations

import pytest

from tests.support.broker_cluster import BrokerCluster
from tests.support.transactional_workers import transactional_workers

TOPIC = "transacted"
PARTITIONS = 3


@pytest.mark.slow
def test_transactions_are_atomic_when_each_broker_is_killed_once(cluster: BrokerCluster) -> None:
    cluster.create_topic(TOPIC, partitions=PARTITIONS)
    with transactional_workers(cluster.bootstrap, TOPIC, PARTITIONS) as workers:
        for broker_id in list(cluster.running):
            workers.wait_for_progress()
            cluster.kill(broker_id)
            workers.wait_for_progress()
            cluster.start(broker_id)
            cluster.wait_until_complete(TOPIC)
        workers.wait_for_progress()
