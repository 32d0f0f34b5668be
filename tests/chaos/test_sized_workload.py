"""Batches of all sizes on one broker; `make chaos` runs them in clusters, beside busy processes.

What is stored is what was sent.
"""

from __future__ import annotations

from pathlib import Path
from threading import Event
from time import monotonic

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.checker import anomalies
from tests.chaos.history import Outcome
from tests.chaos.sized_workload import (
    BATCH_BYTES,
    TOPIC_CONFIGS,
    SizedTransactionalWorkload,
    SizedWorkload,
)
from tests.chaos.workload import PARTITIONS, Workload, content_of, value_of
from tests.support.broker_process import odradek_broker

WAIT_S = 120.0
PRODUCERS = 4
SETTINGS = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}


def run(folder: Path, kind: type[Workload], seed: int, acknowledged: int) -> Workload:
    """A workload on the topic of a seed, until so much is acknowledged; all of it is read."""
    topic = f"t-{seed}"
    with odradek_broker(folder, overrides=SETTINGS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        new = NewTopic(topic, PARTITIONS, 1, config=kind.topic_configs(seed) or {})
        admin.create_topics([new])[topic].result(WAIT_S)
        workload = kind(broker.address, topic, seed)
        with workload.running(producers=PRODUCERS):
            deadline = monotonic() + WAIT_S
            while workload.acknowledged() < acknowledged and monotonic() < deadline:
                Event().wait(0.05)
        workload.read_all()
    assert workload.acknowledged() >= acknowledged
    return workload


@pytest.mark.client
@pytest.mark.parametrize("seed", range(len(TOPIC_CONFIGS)))
def test_batches_of_all_sizes_are_read_as_they_were_sent(tmp_path: Path, seed: int) -> None:
    workload = run(tmp_path, SizedWorkload, seed, 4_000)
    assert anomalies(workload.history) == []
    outcomes = {send.outcome for send in workload.history.sends}
    assert outcomes == {Outcome.OK}


@pytest.mark.client
@pytest.mark.parametrize("seed", [0, 2])
def test_transactions_of_all_sizes_are_read_as_they_were_sent(tmp_path: Path, seed: int) -> None:
    workload = run(tmp_path, SizedTransactionalWorkload, seed, 40)
    assert anomalies(workload.history) == []


@pytest.mark.parametrize("size", BATCH_BYTES)
def test_a_record_with_bytes_of_another_one_is_noticed(size: int) -> None:
    content = content_of(12_345, size)
    assert value_of(content) == 12_345
    for position in range(0, len(content), max(1, len(content) // 50)):
        changed = bytearray(content)
        changed[position] ^= 1
        with pytest.raises(AssertionError):
            value_of(bytes(changed))
