"""Breaks a cluster of real processes for as long as asked, and checks what its clients saw.

    python -m tests.chaos [--minutes 60] [--seed N] [--seconds 30] [--workload NAME]

Three brokers and three ZooKeeper servers, each in a network namespace of its own (needs root).  A
run is a topic of its own with its clients, and faults for `--seconds`; a cluster is kept for `RUNS`
runs.  Of the workloads, `records` is that of idempotent producers, `transactions` that of producers
which send and poll in transactions; without `--workload` they take turns.
Appends a line to `ledger.jsonl` for each run: when, commit, seed, faults, records, verdict.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.chaos.checker import anomalies
from tests.chaos.disks import Disk, disks
from tests.chaos.faults import BROKERS, FAULTS, SESSION_S, Scene
from tests.chaos.namespaces import namespaces
from tests.chaos.transactional_workload import TIMEOUT_MS, TransactionalWorkload
from tests.chaos.workload import PARTITIONS, Workload
from tests.cluster.replicas import assert_identical
from tests.cluster.stored_logs import assert_undamaged
from tests.support.broker_cluster import broker_cluster
from tests.support.ledger import append, commit
from tests.support.stable_offsets import wait_until_stable
from tests.support.zookeeper import connect_text, zookeeper_ensemble

LEDGER = Path(__file__).with_name("ledger.jsonl")
RUNS = 20
HEAL_S = 120.0
SETTINGS = {
    "zookeeper.session.timeout.ms": str(int(SESSION_S * 1000)),
    "zookeeper.connection.timeout.ms": "60000",
    "replica.lag.time.max.ms": "5000",
    "replica.fetch.backoff.ms": "200",
    "unclean.leader.election.enable": "false",
    "min.insync.replicas": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
RECORDS, TRANSACTIONS = "records", "transactions"
WORKLOADS = {RECORDS: Workload, TRANSACTIONS: TransactionalWorkload}
STABLE_S = 2 * TIMEOUT_MS / 1000 + 30


@contextmanager
def scene(folder: Path, mounted: Mapping[int, Disk], random: Random) -> Iterator[Scene]:
    """A cluster that works."""
    servers = [f"z{number}" for number in BROKERS]
    brokers = {number: f"b{number}" for number in BROKERS}
    with (
        namespaces([*servers, *brokers.values()]) as network,
        zookeeper_ensemble(folder, machines=[network.machine(one) for one in servers]) as ensemble,
        broker_cluster(
            folder,
            zookeeper_connect=connect_text(ensemble, "/chaos"),
            overrides=SETTINGS,
            machines={number: network.machine(name) for number, name in brokers.items()},
        ) as cluster,
    ):
        yield Scene(cluster, ensemble, network, mounted, random)


def run_once(
    found: Scene, name: str, seed: int, seconds: float, kind: str = RECORDS
) -> dict[str, object]:
    """One topic, its clients, and faults; the line of the ledger."""
    found.topic = name
    found.random.seed(seed)
    cluster = found.cluster
    cluster.create_topic(name, partitions=PARTITIONS)
    workload = WORKLOADS[kind](cluster.bootstrap, name, seed)
    done: list[str] = []
    verdict = "held"
    try:
        with workload.running():
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                found.hold(0.5, 2.0)
                done.append(found.random.choice(FAULTS)(found))
            cluster.wait_until_complete(name, timeout_s=HEAL_S)
            healed = workload.acknowledged()
            cluster.wait(lambda: workload.acknowledged() > healed, "records are acknowledged")
        if kind == TRANSACTIONS:
            wait_until_stable(cluster, name, PARTITIONS, timeout_s=STABLE_S)
        workload.read_all()
        assert_identical(cluster, name)
        kinds = Counter(one.kind for one in anomalies(workload.history))
        if kinds:
            verdict = f"anomalies: {dict(kinds)}: {anomalies(workload.history)[:5]}"
    except (AssertionError, OSError) as error:
        verdict = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}"
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "seed": seed,
        "workload": kind,
        "faults": done,
        "sent": len(workload.history.sends),
        "acknowledged": workload.acknowledged(),
        "polled": sum(len(poll.records) for poll in workload.history.polls),
        "commits": len(workload.history.commits),
        "transactions": Counter(
            one.outcome.value for one in workload.history.transactions.values()
        ),
        "longest_stall_s": round(workload.longest_stall_s, 1),
        "verdict": verdict,
    }


def main(words: Sequence[str]) -> int:
    """Run until the time is up, or a check fails: then the files stay, and the exit code is 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--workload", choices=tuple(WORKLOADS))
    arguments = parser.parse_args(words)
    deadline = time.monotonic() + arguments.minutes * 60
    seed = arguments.seed
    while time.monotonic() < deadline:
        folder = Path(tempfile.mkdtemp(prefix="chaos-"))
        with disks(folder, BROKERS) as mounted:
            with scene(folder, mounted, Random(seed)) as found:
                for number in range(RUNS):
                    kind = arguments.workload or tuple(WORKLOADS)[number % len(WORKLOADS)]
                    line = run_once(found, f"{kind}-{number}", seed, arguments.seconds, kind)
                    append(LEDGER, line)
                    seed += 1
                    if line["verdict"] != "held" or time.monotonic() > deadline:
                        break
            if line["verdict"] != "held":
                for broker_id in BROKERS:
                    data = folder / f"broker-{broker_id}" / "data"
                    shutil.copytree(data, data.with_name("kept"))
                print(f"the files are in {folder}", file=sys.stderr)
                return 1
            assert_undamaged(folder)
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
