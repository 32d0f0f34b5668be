"""A broker of a demo, which runs while the demo works, and the verdict at the end."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from odradek.demo.claims import Claim, DemoError, print_claims
from odradek.demo.replica_offsets import DemoCluster
from odradek.tools.client import ClientError
from odradek.tools.cluster.command import HOST, READY, broker_command
from odradek.tools.cluster.readiness import brokers_know_each_other
from odradek.tools.cluster.supervised import SupervisedProcess, run_processes
from odradek.tools.console.library import library

BROKER_ID: Final = 0
REQUEST_TIMEOUT_MS: Final = 10_000
SETTINGS: Final = {
    "broker.id": str(BROKER_ID),
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


def run_demo(work: Callable[[Path], Awaitable[Sequence[Claim]]]) -> int:
    """Run a demo in a temporary folder, and print its verdict; returns the exit code.

    raises  LibraryMissingError, SupervisionError, StopRequested
    """
    library()
    with tempfile.TemporaryDirectory(prefix="odradek-demo-") as folder:
        try:
            return print_claims(asyncio.run(_collect(work, Path(folder))))
        except (ClientError, DemoError) as error:
            print(f"FAIL: {error}")
            return 1


async def _collect(
    work: Callable[[Path], Awaitable[Sequence[Claim]]], folder: Path
) -> Sequence[Claim]:
    return await work(folder)


async def with_broker(
    folder: Path,
    port: int,
    advertised: int,
    work: Callable[[], Awaitable[Sequence[Claim]]],
) -> Sequence[Claim]:
    """Start a broker, work, stop it.

    advertised  the port to which clients connect after their first request
    raises      SupervisionError, StopRequested; what the work raises
    """
    claims: list[Claim] = []

    async def collect() -> None:
        claims.extend(await work())

    def processes() -> list[list[SupervisedProcess]]:
        settings = {
            **SETTINGS,
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{advertised}",
            "log.dirs": str(folder / "broker"),
        }
        command = broker_command(settings, ())
        return [[SupervisedProcess("broker", command, ready=READY, log=folder / "broker.log")]]

    await run_processes(
        processes,
        is_ready=lambda: brokers_know_each_other([address_of(port)]),
        work=lambda _: [collect()],
    )
    return claims


def address_of(port: int) -> str:
    """The address of a port of this machine."""
    return f"{HOST}:{port}"


async def create_topics(address: str, *names: str) -> None:
    """Topics of one partition.

    raises  ClientError
    """
    cluster = DemoCluster(address, REQUEST_TIMEOUT_MS)
    try:
        for name in names:
            await asyncio.to_thread(cluster.create_topic, name, [BROKER_ID], {})
    finally:
        cluster.close()
