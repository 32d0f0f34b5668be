"""`odradek demo eos`: a program that copies a topic is killed in the middle of a transaction.

Each transaction has records of the output and the offsets of the input.  Another copier with the
same transactional id goes on where the last commit was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from odradek.demo.claims import Claim, DemoError
from odradek.demo.copier import IN_TRANSACTION, INPUT, OUTPUT, TRANSACTION_RECORDS
from odradek.demo.one_broker import address_of, create_topics, run_demo, with_broker
from odradek.demo.read_back import read_all
from odradek.launcher import module_command
from odradek.tools.cluster.command import free_ports
from odradek.tools.console.library import library

RECORDS: Final = 1_000
COMMITTED: Final = 3
"""Transactions that the first copier commits."""
OPEN_RECORDS: Final = TRANSACTION_RECORDS // 2
"""Records of the transaction in which it is killed."""
COPIER_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True)
class Seen:
    """The output, as consumers with both isolation levels see it."""

    uncommitted: Sequence[str]
    committed: Sequence[str]


def run() -> int:
    """Run the demo; returns the exit code.

    raises  LibraryMissingError, SupervisionError, StopRequested
    """
    return run_demo(_run)


async def _run(folder: Path) -> Sequence[Claim]:
    (port,) = free_ports(1)
    print(
        f"One broker on this machine. A copier moves {RECORDS} records from topic {INPUT} to topic "
        f"{OUTPUT},\n{TRANSACTION_RECORDS} in each transaction together with their offsets. It is "
        f"killed after {COMMITTED} commits, with {OPEN_RECORDS} records of the next one sent.",
        flush=True,
    )
    return await with_broker(folder, port, port, partial(_work, address_of(port)))


async def _work(address: str) -> Sequence[Claim]:
    await create_topics(address, INPUT, OUTPUT)
    await asyncio.to_thread(_fill, address)
    first = await _copier(address, COMMITTED, OPEN_RECORDS)
    try:
        await _line(first, IN_TRANSACTION)
    finally:
        if first.returncode is None:
            first.kill()
        await first.wait()
    killed = await _seen(address)
    second = await _copier(address)
    try:
        async with asyncio.timeout(COPIER_TIMEOUT_S):
            code = await second.wait()
    except TimeoutError:
        raise DemoError("the second copier does not come to its end") from None
    finally:
        if second.returncode is None:
            second.kill()
            await second.wait()
    if code:
        raise DemoError(f"the second copier ended with exit code {code}")
    return claims_of(killed, await _seen(address))


def _fill(address: str) -> None:
    producer = library().Producer({"bootstrap.servers": address, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(INPUT, str(number).encode(), partition=0)
    if producer.flush(COPIER_TIMEOUT_S):
        raise DemoError("the input is not acknowledged")


async def _copier(address: str, *stop_at: int) -> asyncio.subprocess.Process:
    command = module_command("odradek.demo.copier", address, str(RECORDS))
    return await asyncio.create_subprocess_exec(
        *command,
        *map(str, stop_at),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )


async def _line(process: asyncio.subprocess.Process, expected: str) -> None:
    assert process.stdout is not None, "its output is a pipe"
    try:
        async with asyncio.timeout(COPIER_TIMEOUT_S):
            line = (await process.stdout.readline()).decode().strip()
    except TimeoutError:
        line = "nothing"
    if line != expected:
        raise DemoError(f"the copier says {line!r} in place of {expected!r}")


async def _seen(address: str) -> Seen:
    return Seen(
        await asyncio.to_thread(read_all, address, OUTPUT, is_committed=False),
        await asyncio.to_thread(read_all, address, OUTPUT, is_committed=True),
    )


def claims_of(killed: Seen, ended: Seen) -> Sequence[Claim]:
    """Every promise, in the order in which they are printed.

    killed  after the first copier was killed
    ended   after the second one has copied the rest
    """
    everything = [str(number) for number in range(RECORDS)]
    committed = everything[: COMMITTED * TRANSACTION_RECORDS]
    sent = everything[: COMMITTED * TRANSACTION_RECORDS + OPEN_RECORDS]
    return [
        Claim(
            f"killed: read_uncommitted sees {len(killed.uncommitted)} records, those of the open "
            "transaction too",
            list(killed.uncommitted) == sent,
        ),
        Claim(
            f"killed: read_committed sees {len(killed.committed)} records, those of "
            f"{COMMITTED} commits",
            list(killed.committed) == committed,
        ),
        Claim(
            f"another copier went on: read_uncommitted sees {len(ended.uncommitted)} records, "
            f"{len(ended.uncommitted) - len(set(ended.uncommitted))} of them twice",
            list(ended.uncommitted) == sent + everything[len(committed) :],
        ),
        Claim(
            f"another copier went on: read_committed sees {len(ended.committed)} records, "
            f"{len(ended.committed) - len(set(ended.committed))} of them twice",
            list(ended.committed) == everything,
        ),
    ]
