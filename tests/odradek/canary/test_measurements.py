"""The pure parts of a canary: what is counted, and how its topic is repaired."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from odradek.tools.canary.measurements import ERRORS_MAX, WINDOW, BrokerMeasurements, Probe, metrics
from odradek.tools.canary.topic import CanaryPartition, plan_repair

BROKERS = st.lists(st.integers(0, 20), min_size=1, max_size=8, unique=True)


@given(BROKERS, st.data())
def test_every_broker_is_the_preferred_leader_of_a_partition(
    brokers: list[int], data: st.DataObject
) -> None:
    served = data.draw(st.lists(st.sampled_from(brokers), unique=True))
    partitions = {
        index: CanaryPartition(broker, [broker], [broker]) for index, broker in enumerate(served)
    }
    repair = plan_repair(partitions, brokers)
    preferred = served + [replicas[0] for replicas in repair.new]
    assert sorted(preferred) == sorted(brokers)
    assert not repair.elected
    for replicas in repair.new:
        assert len(set(replicas)) == len(replicas) == min(3, len(brokers))
        assert set(replicas) <= set(brokers)


def test_leader_is_elected_when_its_broker_is_alive_and_in_sync() -> None:
    partitions = {
        0: CanaryPartition(2, [1, 2], [2, 1]),
        1: CanaryPartition(2, [2, 1], [2, 1]),
        2: CanaryPartition(2, [3, 2], [2]),
        3: CanaryPartition(2, [4, 2], [2, 4]),
        4: CanaryPartition(-1, [], []),
    }
    assert plan_repair(partitions, [1, 2, 3]) == ([], [0])


PROBES = st.lists(st.sampled_from([Probe(None, "", 1.0, 2.0), Probe("DOWN", "it is"), Probe("X")]))


@given(PROBES)
def test_changes_alternate_and_count_what_failed(probes: list[Probe]) -> None:
    broker = BrokerMeasurements(7)
    states = []
    failed = 0
    for probe in probes:
        change = broker.add(probe)
        if change is not None:
            states.append(change.is_available)
            assert change.failed_probes == (failed if change.is_available else 0)
        failed = 0 if probe.error is None else failed + 1
        assert broker.is_available == (probe.error is None)
    assert all(before != after for before, after in pairwise(states))
    assert bool(states) == bool(probes)
    assert sum(broker.failures.values()) == sum(probe.error is not None for probe in probes)


def test_memory_is_bounded_and_metrics_can_be_read() -> None:
    broker = BrokerMeasurements(7)
    for number in range(WINDOW * 2):
        broker.add(Probe(f"ERROR_{number}", 'a "reason"'))
    for number in range(WINDOW):
        broker.add(Probe(None, "", number, number + 1))
    assert len(broker.failures) == ERRORS_MAX + 1
    assert len(broker.produce_ms()) == WINDOW
    assert broker.availability == 1
    samples = {
        (sample.name, sample.labels.get("quantile")): sample.value
        for family in text_string_to_metric_families(metrics({7: broker}).decode())
        for sample in family.samples
        if sample.name != "odradek_canary_failures_total"
    }
    assert samples["odradek_canary_probes_total", None] == WINDOW * 3
    assert samples["odradek_canary_produce_ms", "1.0"] == WINDOW - 1
    assert samples["odradek_canary_end_to_end_ms_count", None] == WINDOW
