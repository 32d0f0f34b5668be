"""Breaks a cluster of real processes for as long as asked, and checks what its clients saw.

    python -m tests.chaos [--minutes 60 | --runs N] [--keep-going] [--seed N] [--seconds 30]
                          [--workload NAME] [--busy N] [--secured]

Three brokers and three ZooKeeper servers, each in a network namespace of its own (needs root).  A
run is a topic of its own with its clients, administrators' operations, and faults for `--seconds`;
a cluster is kept for `RUNS` runs.  Of the workloads, `records` is that of idempotent producers,
`transactions` that of producers which send and poll in transactions, both with confluent-kafka;
`java` and `java-transactions` are those of the Java client; `sizes` and `sized-transactions` have
batches of all sizes (sized_workload.py).  Without `--workload` they take turns.  `--busy` runs
processes beside them that do nothing but take processor time.  With `--secured`, brokers reach each
other over SASL_SSL with SCRAM-SHA-512, in sessions of some seconds.

Faults come in lanes (faults.py): brokers and disks, the network, ZooKeeper; those of one lane
follow each other, and the lanes run at once.  Appends a line to `ledger.jsonl` for each run: when,
commit, seed, faults, operations, records, verdict.  Each entry of `faults` is counted as one fault,
also where it kills two brokers; `wall_s` is the whole run, from the creation of its topic to the
last check, and what faults an hour of run are divided by.  When the brokers of a cluster have
ended, `odradek check-log-dirs` checks their directories; damage is a line of the ledger, too.

A run in which a client did nothing has failed, as one in which a fault did nothing.  A campaign may
be ended (SIGTERM, Ctrl-C) and begun again: the ledger has all runs that have ended.  Several at
once, with `--seed` far from each other, use the time in which one waits.
"""

from __future__ import annotations

import argparse
import itertools
import math
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from threading import Event

from kazoo.client import KazooClient

from tests.chaos.checker import anomalies
from tests.chaos.disks import Disk, disks
from tests.chaos.failing_syncs import FailingSyncs
from tests.chaos.faults import GAPS_S, LANES
from tests.chaos.history import History
from tests.chaos.java_workload import JavaTransactionalWorkload, JavaWorkload
from tests.chaos.namespaces import namespaces
from tests.chaos.operations import Operations
from tests.chaos.scene import BROKERS, SESSION_S, Lane, Scene
from tests.chaos.sized_workload import SizedTransactionalWorkload, SizedWorkload
from tests.chaos.transactional_workload import TIMEOUT_MS, TransactionalWorkload
from tests.chaos.workload import PARTITIONS, Workload
from tests.cluster.replicas import assert_identical
from tests.cluster.stored_logs import damage_in
from tests.security.test_sasl_cluster import settings_of, store_user
from tests.support.broker_cluster import BrokerCluster, broker_cluster
from tests.support.busy_processes import busy_processes
from tests.support.certificates import Authority
from tests.support.ledger import append, commit
from tests.support.machines import Machine
from tests.support.ports import free_port
from tests.support.stable_offsets import wait_until_stable
from tests.support.zookeeper import connect_text, zookeeper_ensemble

LEDGER = Path(__file__).with_name("ledger.jsonl")
RUNS = 20
"""On one cluster."""
SEEDS_MAX = 1 << 20
"""More than the runs of any time."""
HEAL_S = 120.0
SETTINGS = {
    "zookeeper.session.timeout.ms": str(int(SESSION_S * 1000)),
    "zookeeper.connection.timeout.ms": "60000",
    "replica.lag.time.max.ms": "5000",
    "replica.fetch.backoff.ms": "200",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "unclean.leader.election.enable": "false",
    "min.insync.replicas": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
WORKLOADS = {
    "records": Workload,
    "transactions": TransactionalWorkload,
    "java": JavaWorkload,
    "java-transactions": JavaTransactionalWorkload,
    "sizes": SizedWorkload,
    "sized-transactions": SizedTransactionalWorkload,
}
STABLE_S = 2 * TIMEOUT_MS / 1000 + 30


def secure(zookeeper_connect: str | None, cluster: BrokerCluster) -> None:
    """Let brokers use a listener of SASL_SSL among themselves.

    zookeeper_connect  None: they use that of clients
    """
    if zookeeper_connect is None:
        return
    address, _, chroot = zookeeper_connect.partition("/")
    client = KazooClient(hosts=address)
    client.start()
    client.ensure_path(f"/{chroot}")
    client.stop()
    store_user(zookeeper_connect, "inter", "between")
    brokers = cluster.brokers.values()
    hosts = [broker.address.rpartition(":")[0] for broker in brokers]
    authority = Authority(next(iter(brokers)).folder.parent / "certificates")
    pem = authority.issue("broker", hosts=hosts).pem
    for broker, host in zip(brokers, hosts, strict=True):
        settings = settings_of("SCRAM-SHA-512", broker.address)
        listeners = f"PLAINTEXT://{broker.address},INTERNAL://{host}:{free_port()}"
        broker.overrides |= settings | {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SASL_SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(pem),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.trusted),
        }


@contextmanager
def scene(
    folder: Path, mounted: Mapping[int, Sequence[Disk]], *, is_secured: bool
) -> Iterator[Scene]:
    """A cluster that works."""
    servers = [f"z{number}" for number in BROKERS]
    syncs = {number: FailingSyncs(folder / f"broker-{number}") for number in BROKERS}
    log_directories = {
        number: {"log.dirs": ",".join(str(disk.path) for disk in disks)}
        for number, disks in mounted.items()
    }
    with (
        ThreadPoolExecutor(len(LANES) + 1) as threads,
        namespaces([*servers, *(f"b{number}" for number in BROKERS)]) as network,
        zookeeper_ensemble(
            folder, machines=[network.machine(server) for server in servers]
        ) as ensemble,
        broker_cluster(
            folder,
            zookeeper_connect=connect_text(ensemble, "/chaos"),
            prepare=partial(secure, connect_text(ensemble, "/chaos") if is_secured else None),
            overrides=SETTINGS,
            of_broker=log_directories,
            machines={
                number: Machine(machine.host, (*machine.prefix, *syncs[number].prefix))
                for number in BROKERS
                for machine in [network.machine(f"b{number}")]
            },
        ) as cluster,
    ):
        yield Scene(folder, cluster, ensemble, network, mounted, syncs, threads)


def run_lane(name: str, lane: Lane, is_over: Event) -> list[str]:
    """Faults until it is over; what they were."""
    done: list[str] = []
    while not is_over.wait(lane.random.uniform(0.0, GAPS_S[name])):
        done.append(lane.random.choice(LANES[name])(lane))
    return done


def break_for(scene: Scene, operations: Operations, seed: int, seconds: float) -> list[str]:
    """All lanes and operations at once; the faults.

    raises  AssertionError of a fault that does nothing, or of a broker that does not start
    """
    is_over = Event()
    lanes = [
        scene.threads.submit(run_lane, name, Lane(scene, Random(f"{seed} {name}")), is_over)
        for name in LANES
    ]
    busy = scene.threads.submit(operations.run, is_over)
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline and not any(lane.done() for lane in lanes):
            is_over.wait(0.1)
    finally:
        is_over.set()
    busy.result()
    return [fault for lane in lanes for fault in lane.result()]


def history_lines(history: History) -> Iterator[str]:
    """All of it, for who looks for the cause."""
    yield from map(repr, history.sends)
    yield from map(repr, history.transactions.values())
    yield from map(repr, history.polls)
    yield from map(repr, history.commits)
    yield from map(repr, history.final)


def run_once(scene: Scene, name: str, seed: int, seconds: float, kind: str) -> dict[str, object]:
    """One topic, its clients, and faults; the line of the ledger."""
    began_s = time.monotonic()
    scene.topic = name
    cluster = scene.cluster
    configs = WORKLOADS[kind].topic_configs(seed)
    cluster.create_topic(name, partitions=PARTITIONS, configs=configs)
    workload = WORKLOADS[kind](cluster.bootstrap, name, seed)
    operations = Operations(scene, Random(f"{seed} operations"))
    faults: list[str] = []
    verdict = "held"
    try:
        with workload.running():
            faults = break_for(scene, operations, seed, seconds)
            cluster.wait(scene.is_whole, "brokers restarted", timeout_s=HEAL_S)
            operations.settle()
            cluster.wait_until_complete(name, timeout_s=HEAL_S)
            healed = workload.acknowledged()
            cluster.wait(lambda: workload.acknowledged() > healed, "records are acknowledged")
            cluster.wait(lambda: not workload.missing(), "every client has done something")
        wait_until_stable(cluster, name, PARTITIONS, timeout_s=STABLE_S)
        workload.read_all()
        assert_identical(cluster, name)
        kinds = Counter(anomaly.kind for anomaly in anomalies(workload.history))
        if kinds:
            verdict = f"anomalies: {dict(kinds)}: {anomalies(workload.history)[:5]}"
        elif kind.startswith("size"):
            scene.delete(name)  # many of them would fill the disks
    except (AssertionError, OSError) as error:
        verdict = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}"
    if verdict != "held":
        (scene.folder / "history.txt").write_text("\n".join(history_lines(workload.history)))
    return {
        "time": now(),
        "commit": commit(),
        "seed": seed,
        "workload": kind,
        "wall_s": round(time.monotonic() - began_s, 1),
        "faults": faults,
        "operations": dict(sorted(operations.done.items())),
        "sent": len(workload.history.sends),
        "acknowledged": workload.acknowledged(),
        "polled": sum(len(poll.records) for poll in workload.history.polls),
        "commits": len(workload.history.commits),
        "transactions": Counter(
            transaction.outcome.value for transaction in workload.history.transactions.values()
        ),
        "longest_stall_s": round(workload.longest_stall_s, 1),
        "verdict": verdict,
    }


def now() -> str:
    """The time of a line of the ledger."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def note(verdict: str) -> None:
    """Add what is wrong with a cluster, not with one run, to the ledger."""
    append(LEDGER, {"time": now(), "commit": commit(), "verdict": verdict[:600]})


def run_cluster(
    folder: Path, numbers: Iterator[int], deadline: float, arguments: argparse.Namespace
) -> bool:
    """Runs on one cluster, and a check of its directories; whether all held.

    numbers  seeds of the runs
    """
    is_held = True
    with busy_processes(arguments.busy), disks(folder, BROKERS) as mounted:
        with scene(folder, mounted, is_secured=arguments.secured) as whole_scene:
            for number, seed in enumerate(itertools.islice(numbers, RUNS)):
                kind = arguments.workload or tuple(WORKLOADS)[number % len(WORKLOADS)]
                line = run_once(whole_scene, f"{kind}-{number}", seed, arguments.seconds, kind)
                append(LEDGER, line | {"secured": True} if arguments.secured else line)
                is_held = line["verdict"] == "held"
                if not is_held or time.monotonic() > deadline:
                    break
        damage = damage_in(folder)
        if damage is not None:
            is_held = False
            note(f"damaged: {damage}")
        if not is_held:
            for disk in (
                copied_disk for of_broker in mounted.values() for copied_disk in of_broker
            ):
                shutil.copytree(disk.path, disk.path.with_name(f"kept-{disk.path.name}"))
    return is_held


def main(words: Sequence[str]) -> int:
    """Run until the time is up, or a check fails; the exit code is 1 when one has.

    The files of a cluster with which one has failed stay.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--runs", type=int, help="so many runs, however long they take")
    parser.add_argument("--keep-going", action="store_true", help="a failed run is not the last")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--workload", choices=tuple(WORKLOADS))
    parser.add_argument("--busy", type=int, default=0, help="processes that take processor time")
    parser.add_argument("--secured", action="store_true", help="SASL_SSL between brokers")
    arguments = parser.parse_args(words)
    # Like Ctrl-C: processes, namespaces and mounts are removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    is_timed = arguments.runs is None
    deadline = time.monotonic() + arguments.minutes * 60 if is_timed else math.inf
    seeds = iter(range(arguments.seed, arguments.seed + (arguments.runs or SEEDS_MAX)))
    failed = 0
    for first in seeds:
        folder = Path(tempfile.mkdtemp(prefix="chaos-"))
        try:
            is_held = run_cluster(folder, itertools.chain([first], seeds), deadline, arguments)
        except AssertionError as error:
            is_held = False
            note(f"no cluster: {error}")
        if is_held:
            shutil.rmtree(folder)
        else:
            print(f"the files are in {folder}", file=sys.stderr)
            failed += 1
        if time.monotonic() > deadline or (failed and not arguments.keep_going):
            break
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
