"""The transactional workload, on one broker without faults: what it records can be relied upon."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from tests.chaos.checker import ABORTED_READ, DIRTY_READ, PRECOMMITTED_READ, anomalies
from tests.chaos.transactional_workload import TransactionalWorkload
from tests.chaos.workload import PARTITIONS, READER
from tests.clients.confluent_client import Confluent
from tests.support.broker_process import odradek_broker

WAIT_S = 60.0
TRANSACTIONS = 100
RUNS_MAX = 10
"""Polls are short: on a busy machine few of them get what is not committed yet."""
ANOMALIES = {ABORTED_READ, DIRTY_READ, PRECOMMITTED_READ}


def test_consumers_that_are_not_read_committed_are_found_by_the_checker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(READER, "isolation.level", "read_uncommitted")
    kinds: set[str] = set()
    with odradek_broker(tmp_path) as broker:
        for seed in range(RUNS_MAX):
            topic = f"t-{seed}"
            Confluent(broker.address).create_topic(topic, PARTITIONS)
            workload = TransactionalWorkload(broker.address, topic, seed=seed)
            with workload.running():
                deadline = monotonic() + WAIT_S
                while workload.acknowledged() < TRANSACTIONS and monotonic() < deadline:
                    Event().wait(0.05)
            workload.read_all()
            kinds |= {anomaly.kind for anomaly in anomalies(workload.history)}
            if kinds >= ANOMALIES:
                break
    assert kinds >= ANOMALIES
