"""A topic is copied in transactions while a broker and a copier are killed."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.cluster.copying import Copy, copy_under_kills
from tests.support.broker_cluster import BrokerCluster

RECORDS = 6_000


def test_copy_in_transactions_is_exact_when_a_broker_and_a_copier_are_killed(
    cluster: BrokerCluster, tmp_path: Path
) -> None:
    copy = Copy(cluster, "confluent-kafka", tmp_path, records=RECORDS, random=Random(1))
    try:
        copy_under_kills(copy, records=RECORDS, kills=1)
    finally:
        copy.close()
    assert {step.split()[0] for step in copy.steps} >= {"broker", "copier"}
