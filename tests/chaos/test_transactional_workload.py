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

TOPIC = "t"
WAIT_S = 60.0
TRANSACTIONS = 100


def test_consumers_that_are_not_read_committed_are_found_by_the_checker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(READER, "isolation.level", "read_uncommitted")
    with odradek_broker(tmp_path) as broker:
        Confluent(broker.address).create_topic(TOPIC, PARTITIONS)
        workload = TransactionalWorkload(broker.address, TOPIC, seed=1)
        with workload.running():
            deadline = monotonic() + WAIT_S
            while workload.acknowledged() < TRANSACTIONS and monotonic() < deadline:
                Event().wait(0.05)
        workload.read_all()
    kinds = {one.kind for one in anomalies(workload.history)}
    assert kinds >= {ABORTED_READ, DIRTY_READ, PRECOMMITTED_READ}


def has_polled_its_own_send(workload: TransactionalWorkload) -> bool:
    """Whether a transaction has: its polls are short, so on a busy machine few get what it sent."""
    with workload._lock:
        sends = workload.history.sends[:]
        polls = workload.history.polls[:]
    transactions = {send.value: send.transaction for send in sends}
    return any(
        poll.transaction is not None and transactions.get(seen.value) == poll.transaction
        for poll in polls
        for seen in poll.records
    )
