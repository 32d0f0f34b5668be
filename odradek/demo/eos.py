"""`odradek demo eos`: a program that copies a topic is killed in the middle of a transaction.

Each transaction has records of the output and the offsets of the input.  Another copier with the
same transactional id goes on where the last commit was.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from odradek.demo.claims import Claim, DemoError
from odradek.demo.copier import IN_TRANSACTION, INPUT, OUTPUT, TRANSACTION_RECORDS
from odradek.demo.one_broker import run_demo
from odradek.demo.read_back import read_all
from odradek.launcher import module_command
from odradek.testing.broker import Broker
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

    raises  LibraryMissingError, BrokerFailed, KeyboardInterrupt
    """
    return run_demo(
        f"One broker on this machine. A copier moves {RECORDS} records from topic {INPUT} to topic "
        f"{OUTPUT},\n{TRANSACTION_RECORDS} in each transaction together with their offsets. It is "
        f"killed after {COMMITTED} commits, with {OPEN_RECORDS} records of the next one sent.",
        _work,
    )


def _work(broker: Broker) -> Sequence[Claim]:
    address = broker.bootstrap_servers
    for topic in (INPUT, OUTPUT):
        broker.create_topic(topic)
    _fill(address)
    with _copier(address, COMMITTED, OPEN_RECORDS) as first:
        try:
            assert first.stdout is not None, "its output is a pipe"
            # A copier whose requests take too long ends.
            line = first.stdout.readline().strip()
        finally:
            first.kill()
    if line != IN_TRANSACTION:
        raise DemoError(f"the copier says {line!r} in place of {IN_TRANSACTION!r}")
    killed = _seen(address)
    with _copier(address) as second:
        try:
            code = second.wait(COPIER_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise DemoError("the second copier does not come to its end") from None
        finally:
            second.kill()
    if code:
        raise DemoError(f"the second copier ended with exit code {code}")
    return claims_of(killed, _seen(address))


def _fill(address: str) -> None:
    producer = library().Producer({"bootstrap.servers": address, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(INPUT, str(number).encode(), partition=0)
    if producer.flush(COPIER_TIMEOUT_S):
        raise DemoError("the input is not acknowledged")


def _copier(address: str, *stop_at: int) -> subprocess.Popen[str]:
    command = module_command("odradek.demo.copier", address, str(RECORDS), *map(str, stop_at))
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
    )


def _seen(address: str) -> Seen:
    return Seen(
        read_all(address, OUTPUT, is_committed=False), read_all(address, OUTPUT, is_committed=True)
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
