"""Runs a row: target after target in each round, so that all meet the same moods of the machine."""

from __future__ import annotations

import datetime
import resource
import subprocess
import sys
from collections.abc import Sequence

from bench import cores, machine
from bench.clients import ClientError
from bench.places import PROJECT
from bench.process import cpu_ns, settle
from bench.results import RowResult, Sample
from bench.rows.row import Row, Values
from bench.targets.target import Target, TargetError
from bench.wire import WireError

WARM_UP_ROUNDS_JVM = 3
"""A JVM compiles for many seconds of load; the others are what they are after one round."""
FRESH_BYTES = 1 << 30
"""Warmed for rows that start the broker: a JVM takes its heap of 1 GB."""
TROUBLE = (ClientError, TargetError, WireError, OSError)
"""What one target may do to itself without ending the others' measurement."""


def _commit() -> str:
    command = ["git", "-C", str(PROJECT), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def _own_cpu_s() -> float:
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        total += used.ru_utime + used.ru_stime
    return total


def _measured(row: Row, target: Target, topic: str, scale: float) -> tuple[Values, float]:
    """The row's values, and the share of the machine that strangers took meanwhile."""
    busy, own_s = machine.Busy.now(), _own_cpu_s()
    broker_ns = cpu_ns(target.pid) if target.process else 0
    values = row.measure(target, topic, scale)
    ours_s = _own_cpu_s() - own_s
    if target.process:
        ours_s += (cpu_ns(target.pid) - broker_ns) / 1e9
    return values, machine.foreign_share(busy, machine.Busy.now(), ours_s)


def _steady_round(row: Row, target: Target, topic: str, scale: float) -> tuple[Values, float]:
    if target.restart_each_round and target.process:
        target.stop()
        target.wipe()
    if target.process is None:
        target.start()
    target.create_topic(topic, row.partitions)
    if row.fill:
        row.fill(target, topic, scale)
        target.filled()
    settle(target.pid)
    outcome = _measured(row, target, topic, scale)
    target.delete_topic(topic)
    if target.restart_each_round:
        target.stop()
        target.wipe()
    else:
        settle(target.pid)
    return outcome


def _warm_up(row: Row, target: Target, scale: float) -> None:
    for turn in range(WARM_UP_ROUNDS_JVM if target.is_jvm else 1):
        values, foreign_share = _steady_round(row, target, f"{row.key}-warm-{turn}", scale)
        _tell(row, Sample(0, target.key, values, foreign_share))


def _fresh_round(row: Row, target: Target, topic: str, scale: float) -> tuple[Values, float]:
    target.directory.mkdir(parents=True, exist_ok=True)
    machine.warm_pages(target.directory, FRESH_BYTES)
    outcome = _measured(row, target, topic, scale)
    target.stop()
    target.wipe()
    return outcome


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _tell(row: Row, sample: Sample) -> None:
    shown = ", ".join(
        f"{metric.label} {sample.values[metric.key]:,.{metric.digits}f}"
        for metric in row.metrics
        if metric.key in sample.values
    )
    others = f"others {sample.foreign_share:.0%}"
    _say(f"  {row.key} round {sample.round} {sample.target}: {shown} ({others})")


def run(row: Row, targets: Sequence[Target], *, rounds: int, scale: float) -> RowResult:
    """`rounds` interleaved rounds; steady rows warm up before, which is not counted.

    Targets may run already, and those of steady rows run on afterwards: the caller closes them.
    One that fails is reported in the result and left out of the later rounds.
    """
    result = RowResult(
        row=row.key,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        scale=scale,
        commit=_commit(),
        machine=machine.describe(PROJECT),
        versions={target.key: target.version() for target in targets},
        is_pinned=cores.is_pinned(),
    )
    one_round = _steady_round if row.is_steady else _fresh_round
    left = list(targets)
    for number in range(0 if row.is_steady else 1, rounds + 1):
        for target in list(left):
            try:
                if not number:
                    _warm_up(row, target, scale)
                    continue
                topic = f"{row.key}-{number}"
                values, foreign_share = one_round(row, target, topic, scale)
            except TROUBLE as trouble:
                _say(f"  {row.key} round {number} {target.key} FAILED: {trouble}")
                result.failures[target.key] = str(trouble).splitlines()[0]
                left.remove(target)
                target.close()
                continue
            sample = Sample(number, target.key, values, foreign_share)
            _tell(row, sample)
            result.samples.append(sample)
    return result
