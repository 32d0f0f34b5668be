"""`odradek demo isr-cut`: followers that are cut from their leader, with acks -1, 1 and 0.

The brokers reach each other through proxies in this process, and clients reach them without; so the
network between the brokers can be cut while clients and sessions go on.  The leader is the
controller: in-sync replicas change only where the controller can be reached.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from odradek.demo.claims import DemoError, Measured, claims_of, print_claims
from odradek.demo.network import Network
from odradek.demo.read_back import read_all
from odradek.demo.scene import DemoCluster, Scene, TimedProducer
from odradek.tools.client import ClientError
from odradek.tools.cluster.command import HOST, READY, broker_command, broker_settings, free_ports
from odradek.tools.cluster.supervised import (
    SupervisedProcess,
    brokers_know_each_other,
    run_processes,
)
from odradek.tools.console.library import library

BROKERS: Final = 3
EVERYONE: Final = tuple(range(BROKERS))
TOPIC: Final = "records"
STRICT_TOPIC: Final = "strict"
"""Has min.insync.replicas=2."""
WHOLE: Final = "whole"
CUT: Final = "cut"
STEADY_S: Final = 3.0
RECORDS_MIN: Final = 10
REQUEST_TIMEOUT_MS: Final = 5_000
IN_SYNC_TIMEOUT_S: Final = 120.0


class Ports:
    """Ports of this machine that were free a moment ago."""

    def __init__(self) -> None:
        free = free_ports(3 * BROKERS + 1)
        self.zookeeper = free[0]
        self.clients = free[1 : 1 + BROKERS]
        self.brokers = free[1 + BROKERS : 1 + 2 * BROKERS]
        """Where a broker listens for the others."""
        self.advertised = free[1 + 2 * BROKERS :]
        """Where the others connect to: proxies."""

    @property
    def bootstrap(self) -> str:
        """The addresses for clients."""
        return ",".join(f"{HOST}:{port}" for port in self.clients)


def run(lag_ms: int, data: Path | None) -> int:
    """Run the demo; returns the exit code.

    raises  LibraryMissingError, SupervisionError, StopRequested; OSError for `data`
    """
    library()
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="odradek-demo-") as folder:
        try:
            return asyncio.run(_run(lag_ms, Path(folder) if data is None else data.absolute()))
        except (ClientError, DemoError) as error:
            print(f"FAIL: {error}")
            return 1


async def _run(lag_ms: int, data: Path) -> int:
    ports = Ports()
    network = Network()
    measured: list[Measured] = []

    async def work() -> None:
        measured.append(await cut_and_join(lag_ms, ports.bootstrap, network))

    print(
        f"{BROKERS} brokers on this machine, replica.lag.time.max.ms={lag_ms}, data in {data}\n"
        "Each line: in-sync replicas, high watermark and log end offsets of a partition with "
        "min.insync.replicas=1; records\nacknowledged there for each acks, and with acks=-1 in a "
        "partition with min.insync.replicas=2; how long each waits now.",
        flush=True,
    )
    try:
        for port, target in zip(ports.advertised, ports.brokers, strict=True):
            await network.open(port, target)
        await run_processes(
            lambda: _processes(ports, data, lag_ms),
            is_ready=lambda: brokers_know_each_other(ports.bootstrap.split(",")),
            work=lambda _: [work()],
        )
    finally:
        await network.close()
    return print_claims(claims_of(measured[0]))


def _processes(ports: Ports, data: Path, lag_ms: int) -> list[list[SupervisedProcess]]:
    brokers = []
    for number in range(BROKERS):
        settings = {
            **broker_settings(number, ports.clients, ports.zookeeper, data),
            "listeners": f"PLAINTEXT://{HOST}:{ports.clients[number]},"
            f"BROKERS://{HOST}:{ports.brokers[number]}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{ports.clients[number]},"
            f"BROKERS://{HOST}:{ports.advertised[number]}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
            "replica.lag.time.max.ms": str(lag_ms),
            # The consumer that reads everything in the end looks for its coordinator.
            "offsets.topic.num.partitions": "1",
        }
        log = data / f"broker-{number}.log"
        command = broker_command(settings, ())
        brokers.append(SupervisedProcess(f"broker {number}", command, ready=READY, log=log))
    return [brokers[:1], brokers[1:]]


async def cut_and_join(lag_ms: int, bootstrap: str, network: Network) -> Measured:
    """The demo itself, while the brokers run.

    raises  ClientError, DemoError
    """
    cluster = DemoCluster(bootstrap, REQUEST_TIMEOUT_MS)
    try:
        leader = await asyncio.to_thread(cluster.controller_id)
        replicas = [leader, *(broker_id for broker_id in EVERYONE if broker_id != leader)]
        for topic, min_in_sync in ((TOPIC, "1"), (STRICT_TOPIC, "2")):
            configs = {"min.insync.replicas": min_in_sync}
            await asyncio.to_thread(cluster.create_topic, topic, replicas, configs)
        producers = _producers(lag_ms, bootstrap)
        scene = Scene(cluster, TOPIC, replicas, producers)
        try:
            return await _measure(lag_ms, bootstrap, network, scene, producers)
        finally:
            await scene.close()
    finally:
        cluster.close()


def _producers(lag_ms: int, bootstrap: str) -> dict[str, TimedProducer]:
    """Three that wait as long as it takes, and one whose requests end before the lag."""
    patient_ms = 3 * lag_ms + 30_000
    return {
        "all": TimedProducer(bootstrap, TOPIC, name="acks=-1", request_timeout_ms=patient_ms),
        "leader": TimedProducer(
            bootstrap, TOPIC, name="acks=1", acks=1, request_timeout_ms=patient_ms
        ),
        "none": TimedProducer(
            bootstrap, TOPIC, name="acks=0", acks=0, request_timeout_ms=patient_ms
        ),
        "strict": TimedProducer(
            bootstrap,
            STRICT_TOPIC,
            name="min.insync=2",
            request_timeout_ms=max(lag_ms // 4, 1_000),
            retries=False,
        ),
    }


async def _measure(
    lag_ms: int,
    bootstrap: str,
    network: Network,
    scene: Scene,
    producers: Mapping[str, TimedProducer],
) -> Measured:
    strict = producers["strict"]

    def is_steady() -> bool:
        counts = [len(producer.acknowledged) for producer in producers.values()]
        return scene.offsets.in_sync == EVERYONE and min(counts) >= RECORDS_MIN

    if not await scene.go_on(WHOLE, IN_SYNC_TIMEOUT_S, is_steady):
        raise DemoError("the replicas do not get in sync")
    await scene.go_on(WHOLE, STEADY_S)

    network.cut()
    cut_ms = scene.now_ms()
    for producer in producers.values():
        producer.measure_waits(cut_ms)
    is_alone = await scene.go_on(
        CUT, 3 * lag_ms / 1000 + STEADY_S, lambda: len(scene.offsets.in_sync) == 1
    )
    alone_ms = scene.now_ms() - cut_ms
    # Until the request of before has ended; then for some more.
    await scene.go_on(CUT, strict.request_timeout_ms / 1000)
    errors_before, acknowledged_before = Counter(strict.errors), len(strict.acknowledged)
    await scene.go_on(CUT, STEADY_S)
    waits_ms = {name: producer.longest_ms(scene.now_ms()) for name, producer in producers.items()}
    errors_alone = strict.errors - errors_before
    acknowledged_alone = len(strict.acknowledged) - acknowledged_before

    network.join()
    await scene.go_on(WHOLE, IN_SYNC_TIMEOUT_S, lambda: scene.offsets.in_sync == EVERYONE)
    acknowledged_before = len(strict.acknowledged)
    await scene.go_on(WHOLE, STEADY_S)
    acknowledged_again = len(strict.acknowledged) - acknowledged_before
    is_complete = await scene.go_on(
        WHOLE,
        IN_SYNC_TIMEOUT_S,
        lambda: (
            not any(producer.unfinished for producer in producers.values()) and scene.is_complete()
        ),
        sends=False,
    )
    acknowledged, lost = await _read_back(bootstrap, producers)
    return Measured(
        lag_ms=lag_ms,
        wait_all_ms=waits_ms["all"],
        wait_leader_ms=waits_ms["leader"],
        wait_none_ms=waits_ms["none"],
        alone_after_ms=alone_ms if is_alone else None,
        errors_alone=errors_alone,
        acknowledged_alone=acknowledged_alone,
        acknowledged_again=acknowledged_again,
        is_complete=is_complete,
        acknowledged=acknowledged,
        lost=lost,
    )


async def _read_back(bootstrap: str, producers: Mapping[str, TimedProducer]) -> tuple[int, int]:
    """(number of records that were acknowledged, number of those that are not in the log)."""
    values = set(await asyncio.to_thread(read_all, bootstrap, TOPIC, is_committed=False))
    expected = [
        value
        for name, producer in producers.items()
        if name != "strict"
        for value in producer.acknowledged
    ]
    return len(expected), sum(value not in values for value in expected)
