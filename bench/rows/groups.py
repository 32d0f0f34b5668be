"""Consumer groups: rebalances, commits, and the loading of what was committed."""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Final

from bench.group_wire import (
    OFFSET_COMMIT,
    Group,
    await_coordinator,
    check_commit,
    commit_body,
    fetched,
    frame,
)
from bench.process import cpu_ns, settle
from bench.rows.row import DURABLE, Aim, Metric, Row, Values
from bench.targets.target import Target
from bench.wire import Connection, Reader, WireError

COMMITS: Final = 20_000
COMMITS_IN_FLIGHT: Final = 16
LOADED_RECORDS: Final = 1_000_000
LOADED_PARTITIONS: Final = 100
LOADED_GROUPS: Final = 20
WAIT_S: Final = 120.0
MANY_MEMBERS: Final = 500
FEW_MEMBERS: Final = 5
REBALANCES: Final = 5


def _rebalance(target: Target, topic: str, members: int, repeats: int) -> Values:
    async def run() -> tuple[float, float]:
        group = Group(target.address, f"group-{topic}-{members}", members)
        await group.connect()
        formed_s = await group.form()
        again_s = sorted([await group.rebalance() for _ in range(repeats)])
        await group.close()
        return formed_s, again_s[len(again_s) // 2]

    with target.connect() as connection:
        await_coordinator(connection, f"group-{topic}-{members}", WAIT_S)
    formed_s, again_s = asyncio.run(run())
    return {"formed_ms": formed_s * 1e3, "rebalance_ms": again_s * 1e3}


def few(target: Target, topic: str, scale: float) -> Values:
    """Five members come at once, then all enter again."""
    del scale
    return _rebalance(target, topic, FEW_MEMBERS, REBALANCES)


def many(target: Target, topic: str, scale: float) -> Values:
    """Five hundred."""
    return _rebalance(target, topic, max(10, int(MANY_MEMBERS * scale)), 1)


def commits(target: Target, topic: str, scale: float) -> Values:
    """Commits of one partition each, some in flight on one connection."""
    group = f"group-{topic}"
    count = int(COMMITS * scale)
    with target.connect() as connection:
        await_coordinator(connection, group, WAIT_S)
        _commit(connection, group, topic, 1_000)
        settle(target.pid)
        begin_ns, begin_s = cpu_ns(target.pid), time.monotonic()
        _commit(connection, group, topic, count)
        elapsed_s = time.monotonic() - begin_s
        used_ns = cpu_ns(target.pid) - begin_ns
    return {"req_s": count / elapsed_s, "server_cpu_us_req": used_ns / 1e3 / count}


def _commit(connection: Connection, group: str, topic: str, count: int) -> None:
    """Send ahead, never more than `COMMITS_IN_FLIGHT` without a response."""
    request = frame(OFFSET_COMMIT, 2, commit_body(group, topic, {0: 5}))
    sent = answered = 0
    received = bytearray()
    while answered < count:
        ahead = min(count - sent, COMMITS_IN_FLIGHT - (sent - answered))
        if ahead:
            connection.socket.sendall(request * ahead)
            sent += ahead
        received += connection.socket.recv(1 << 16)
        position = 0
        while len(received) - position >= 4:
            (length,) = struct.unpack_from(">i", received, position)
            if len(received) - position - 4 < length:
                break
            reader = Reader(bytes(received[position + 8 : position + 4 + length]))
            if error := check_commit(reader):
                raise WireError(f"OffsetCommit: code {error}")
            position += 4 + length
            answered += 1
        del received[:position]


def load(target: Target, topic: str, scale: float) -> Values:
    """A million commits lie in the log; from the start until every group responds."""
    records = int(LOADED_RECORDS * scale)
    groups = [f"group-{number}" for number in range(LOADED_GROUPS)]
    target.start()
    target.create_topic(topic, LOADED_PARTITIONS)
    rounds = records // (LOADED_PARTITIONS * LOADED_GROUPS)
    with target.connect() as connection:
        for group in groups:
            await_coordinator(connection, group, WAIT_S)
        for number in range(rounds):
            offsets = dict.fromkeys(range(LOADED_PARTITIONS), number)
            for group in groups:
                body = commit_body(group, topic, offsets)
                if error := check_commit(connection.request(OFFSET_COMMIT, 2, body)):
                    raise WireError(f"OffsetCommit: code {error}")
    target.stop()
    target.spawn()
    with target.connect() as connection:
        listening_s = time.monotonic() - target.spawned_ns / 1e9
        for group in groups:
            await_coordinator(connection, group, WAIT_S)
            error, offset = fetched(connection, group, topic, 0)
            assert (error, offset) == (0, rounds - 1), f"{group} is whole: {error}, {offset}"
        loaded_s = time.monotonic() - target.spawned_ns / 1e9
    return {"loaded_s": loaded_s, "loading_s": loaded_s - listening_s}


TIMES: Final = (
    Metric("formed_ms", "all come, ms", 0),
    Metric("rebalance_ms", "all enter again, ms", 0),
)

ROWS: Final = (
    Row(
        key="rebalance_5",
        title="A group of 5 members on raw sockets, heartbeats every 100 ms, no initial delay",
        measure=few,
        metrics=TIMES,
        targets=DURABLE,
        aims=(Aim("rebalance_ms", 150.0), Aim("rebalance_ms", 1.0, "apache39")),
    ),
    Row(
        key="rebalance_500",
        title="A group of 500 members, likewise",
        measure=many,
        metrics=TIMES,
        targets=DURABLE,
        aims=(
            Aim("formed_ms", 10_000.0),
            Aim("formed_ms", 1.0, "apache39"),
            Aim("rebalance_ms", 1.0, "apache39"),
        ),
    ),
    Row(
        key="offset_commit",
        title="OffsetCommit of one partition, one connection, 16 in flight",
        measure=commits,
        metrics=(
            Metric("req_s", "requests/s", 0, more_is_better=True),
            Metric("server_cpu_us_req", "broker CPU us each", 1),
        ),
        targets=DURABLE,
        aims=(Aim("server_cpu_us_req", 40.0), Aim("server_cpu_us_req", 1.0, "apache39")),
    ),
    Row(
        key="load_commits",
        title="Start with 1,000,000 commit records of 20 groups",
        measure=load,
        metrics=(
            Metric("loaded_s", "from the start, s", 2),
            Metric("loading_s", "since it listens, s", 2),
        ),
        targets=DURABLE,
        is_steady=False,
        aims=(Aim("loaded_s", 15.0), Aim("loaded_s", 1.0, "apache39")),
    ),
)
