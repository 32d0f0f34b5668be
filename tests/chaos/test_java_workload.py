"""The Java workloads, on one broker without faults: what they record can be relied upon."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from tests.chaos.checker import anomalies
from tests.chaos.history import History, Outcome
from tests.chaos.java_workload import JavaTransactionalWorkload, JavaWorkload
from tests.chaos.workload import PARTITIONS, Workload
from tests.clients.confluent_client import Confluent
from tests.support.broker_process import odradek_broker

pytestmark = pytest.mark.client

TOPIC = "t"
WAIT_S = 60.0
WANTED = 100
CONSUMERS = 4
"""A reader and a member of a group of each library."""
JAVA_FROM = 1_000_000_000


def run(folder: Path, kind: type[Workload]) -> History:
    """The history of a short run in which each client has worked."""
    with odradek_broker(folder) as broker:
        Confluent(broker.address).create_topic(TOPIC, PARTITIONS)
        workload = kind(broker.address, TOPIC, 1)
        with workload.running():
            deadline = monotonic() + WAIT_S
            while workload.acknowledged() < WANTED or not has_all(workload.history):
                assert monotonic() < deadline, workload.history
                Event().wait(0.05)
        workload.read_all()
    return workload.history


def has_all(history: History) -> bool:
    """Whether there are commits of a Java group, and polls of all consumers but those of
    transactions."""
    consumers = {poll.consumer for poll in history.polls if poll.transaction is None}
    return len(consumers) == CONSUMERS and any(
        commit.is_fetch and commit.group.startswith("java-group") for commit in history.commits
    )


@pytest.mark.parametrize("kind", [JavaWorkload, JavaTransactionalWorkload])
def test_run_without_faults_is_recorded_and_has_no_anomaly(
    tmp_path: Path, kind: type[Workload]
) -> None:
    history = run(tmp_path, kind)
    assert anomalies(history) == []
    sent = [send for send in history.sends if send.value >= JAVA_FROM]
    assert sent
    assert all(send.outcome is Outcome.OK and send.ended_ns is not None for send in sent)
    values = {record.value for record in history.final}
    polled = {seen.value for poll in history.polls for seen in poll.records}
    assert polled <= values
    if kind is JavaTransactionalWorkload:
        outcomes = {
            transaction.outcome
            for transaction in history.transactions.values()
            if transaction.number > JAVA_FROM
        }
        assert outcomes == {Outcome.OK, Outcome.FAIL}
    else:
        assert values == {send.value for send in history.sends}


def test_what_java_consumers_read_is_checked(tmp_path: Path) -> None:
    history = run(tmp_path, JavaWorkload)
    consumer = max(poll.consumer for poll in history.polls)
    assert consumer > CONSUMERS
    broken = next(poll for poll in history.polls if poll.consumer == consumer)
    broken.records.append(broken.records[0])
    assert anomalies(history)
