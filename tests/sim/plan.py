"""What a seed decides before anything runs: the cluster, and when which fault happens."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from odradek.broker.topics import OFFSETS_TOPIC
from odradek.controller.image.image import INTERNAL_TOPICS

LONG_FROM: Final = 1_000_000
"""Seeds from here on are long histories, those below it short ones."""
DENSE_FROM: Final = 2_000_000
"""Seeds from here on are long histories with about twice as many faults."""
BROKERS: Final = 3
KINDS: Final = (
    "kill",
    "stop",
    "power",
    "power in an operation",
    "power after a truncation",
    "pause",
    "cut",
    "cut one way",
    "isolate",
    "cut from coordination",
    "expire",
    "clock",
    "disk error",
    "disk full",
    "slow disk",
    "topic",
    "reassign",
    "controller moves",
    "bounce unseen",
)
TRANSACTIONAL, GROUPS, KINDS_OF_CLIENTS = 0, 1, 8
"""One history in eight has transactional clients, one has groups."""
GROUP_KINDS: Final = ("dynamic", "static", "consumer")
"""Members of the classic protocol, those with instance ids, members of the new protocol."""
TRANSACTIONAL_CLOCK_MS_MAX: Final = 1_000
"""A transaction times out by the clock of its coordinator, wherever that is."""
CHECK_INTERVAL_MS: Final = 1_000
"""Between two looks for transactions that have timed out."""
SCRIPTS_ONE_IN: Final = 8
"""Of how many other histories one has scripted faults instead of random ones."""
END_READER_ONE_IN: Final = 4
COMPACTED_ONE_IN: Final = 4
"""Of how many histories with random faults one has compacted topics."""
COPY: Final = "killed copy"
COPIES_ONE_IN: Final = 3
"""Of how many histories with compacted topics one has scripted faults."""
COPY_LENGTH_MS: Final = 9_000
LAGGING: Final = "lagging follower"
LAGGING_ONE_IN: Final = 4
"""Of how many histories with scripted faults one has followers that do not hear their leader."""
LAGGING_LENGTH_MS: Final = 9_000
SCRIPTS: Final = ("two failovers", "controller moves in a change", "stopped leader")
SCRIPTED_ENDS_ONE_IN: Final = 2
"""Of how many histories with transactions one has scripted faults instead of random ones."""
SCRIPTS_OF_ENDS: Final = ("marker of a dead leader", "disk full at the end")
DEATHS_ONE_IN: Final = 4
"""Of how many of the other ones coordinators die with an outcome."""
DEATHS_LENGTH_MS: Final = 9_000
LOSING: Final = ("power", "power in an operation", "power after a truncation", "bounce unseen")


class Fault(NamedTuple):
    """One fault; `first` and `second` choose what it hits: often a leader."""

    at_ms: int
    kind: str
    first: int
    second: int
    length_ms: int

    def __str__(self) -> str:
        return f"at {self.at_ms} ms: {self.kind} {self.first} {self.second}, {self.length_ms} ms"


class Length(NamedTuple):
    """How long a history is, and how much happens in it.

    faults      the fewest and the most
    pauses_us   of producers, one of them the longest pause between two records
    """

    length_ms: int
    faults: tuple[int, int]
    partitions: tuple[int, ...]
    producers: tuple[int, ...]
    pauses_us: tuple[int, ...]


SHORT: Final = Length(4_000, (2, 14), (1, 1, 1, 2), (1, 1, 2), (400_000, 1_000_000))
LONG: Final = Length(9_000, (6, 40), (1, 1, 2, 3), (1, 2), (200_000, 600_000, 1_500_000))
DENSE: Final = LONG._replace(faults=(20, 60))
FIRST_FAULT_MS: Final = 400
FAULT_LENGTHS_MS: Final = (50, 50, 200, 200, 600, 600, 1_500, 3_000)


@dataclass(frozen=True)
class Plan:
    """A cluster and its faults."""

    seed: int
    is_new: bool
    """Whether the coordination service is empty."""
    length_ms: int
    partitions: int
    flushes: bool
    """Whether brokers flush each record before they acknowledge it: then any of them may lose power
    at any time."""
    segment_bytes: int
    long_delay_one_in: int
    producers: int
    has_scribbler: bool
    """Whether a client writes what need not stay."""
    pause_us: int
    """The longest pause of a producer between two records."""
    faults: tuple[Fault, ...]
    transactional_clients: tuple[bool, ...]
    """Whether transactions of each transactional client have version 2; most plans have none."""
    group_members: tuple[int, ...]
    """How many members each group has; most plans have none."""
    group_kinds: tuple[str, ...] = ()
    """One of GROUP_KINDS for each group."""
    has_end_reader: bool = False
    """Whether a client asks where partitions end."""

    compacts: bool = False
    """Whether all topics are compacted, and cleaned as soon as there is anything to clean."""

    def settings(self) -> dict[str, str]:
        """Those of the brokers."""
        written = {
            "default.replication.factor": str(BROKERS),
            "min.insync.replicas": "2",
            "num.partitions": str(self.partitions),
            "log.segment.bytes": str(self.segment_bytes),
            "replica.lag.time.max.ms": "1500",
            "replica.fetch.wait.max.ms": "700",
            "replica.fetch.response.max.bytes": "4000",
            "replica.fetch.max.bytes": "1000",
            "replica.socket.timeout.ms": "2500",
            "request.timeout.ms": "2500",
            "controller.socket.timeout.ms": "2500",
            "socket.connection.setup.timeout.ms": "1500",
            "replica.high.watermark.checkpoint.interval.ms": "2000",
            "log.flush.offset.checkpoint.interval.ms": "4000",
            "leader.imbalance.check.interval.seconds": "5",
            "controlled.shutdown.retry.backoff.ms": "500",
        }
        if self.internal_topics():
            written |= {
                "offsets.topic.num.partitions": "1",
                "offsets.topic.replication.factor": str(BROKERS),
                "offsets.topic.segment.bytes": str(self.segment_bytes),
                "group.initial.rebalance.delay.ms": "200",
                "group.min.session.timeout.ms": "1000",
                "group.consumer.session.timeout.ms": "2500",
                "group.consumer.min.session.timeout.ms": "1000",
                "group.consumer.heartbeat.interval.ms": "500",
                "group.consumer.min.heartbeat.interval.ms": "500",
            }
        if self.transactional_clients:
            written |= {
                "transaction.state.log.num.partitions": "2",
                "transaction.state.log.replication.factor": str(BROKERS),
                "transaction.state.log.segment.bytes": str(self.segment_bytes),
                "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(
                    CHECK_INTERVAL_MS
                ),
            }
        if self.compacts:
            written |= {
                "log.cleanup.policy": "compact",
                "log.cleaner.enable": "true",
                "log.cleaner.min.cleanable.ratio": "0.01",
                "log.cleaner.backoff.ms": "300",
            }
        if self.flushes:
            written["log.flush.interval.messages"] = "1"
        return written

    def internal_topics(self) -> tuple[str, ...]:
        """Those that its clients need."""
        if self.transactional_clients:
            return INTERNAL_TOPICS
        return (OFFSETS_TOPIC,) if self.group_members else ()

    def loses_records(self) -> bool:
        """Whether a disk loses what was not flushed."""
        return any(fault.kind in LOSING for fault in self.faults)

    def with_faults(self, numbers: list[int]) -> Plan:
        """The same with some of the faults."""
        return replace(self, faults=tuple(self.faults[number] for number in numbers))


def make_plan(seed: int) -> Plan:
    """The plan of a seed: whole kinds of faults are left out at random."""
    rng = random.Random(f"plan {seed}")
    kinds = [kind for kind in KINDS if rng.random() < 0.55] or ["kill"]
    length = SHORT if seed < LONG_FROM else LONG if seed < DENSE_FROM else DENSE
    count = rng.randint(*length.faults)
    faults = sorted(
        Fault(
            at_ms=rng.randrange(FIRST_FAULT_MS, length.length_ms),
            kind=rng.choice(kinds),
            first=rng.randrange(1 << 16),
            second=rng.randrange(1 << 16),
            length_ms=rng.choice(FAULT_LENGTHS_MS),
        )
        for _ in range(count)
    )
    plan = Plan(
        seed=seed,
        is_new=rng.random() < 0.2,
        length_ms=length.length_ms,
        partitions=rng.choice(length.partitions),
        flushes=rng.random() < 0.3,
        segment_bytes=rng.choice((1_000, 3_000, 1 << 20)),
        long_delay_one_in=rng.choice((0, 0, 200, 2_000)),
        producers=rng.choice(length.producers),
        has_scribbler=rng.random() < 0.7,
        pause_us=rng.choice(length.pauses_us),
        faults=tuple(faults),
        transactional_clients=(),
        group_members=(),
        has_end_reader=not random.Random(f"ends {seed}").randrange(END_READER_ONE_IN),
    )
    clients = rng.randrange(KINDS_OF_CLIENTS)
    if clients not in (GROUPS, TRANSACTIONAL):
        scenario = random.Random(f"scenario {seed}")
        if scenario.randrange(SCRIPTS_ONE_IN) == 0:
            return _scripted(plan, scenario)
        compaction = random.Random(f"compaction {seed}")
        is_compacted = not compaction.randrange(COMPACTED_ONE_IN)
        return _compacted(plan, compaction) if is_compacted else plan
    if clients == GROUPS:
        groups = rng.choice((1, 1, 2))
        return replace(
            plan,
            partitions=rng.choice((2, 3)),
            producers=1,
            has_scribbler=False,
            group_members=tuple(rng.choice((2, 2, 3)) for _ in range(groups)),
            group_kinds=tuple(rng.choice(GROUP_KINDS) for _ in range(groups)),
        )
    versions = tuple(rng.random() < 0.5 for _ in range(rng.choice((1, 2))))
    plan = replace(
        plan,
        partitions=max(2, plan.partitions),
        producers=1,
        has_scribbler=False,
        transactional_clients=versions,
    )
    return _with_scripted_ends(plan, random.Random(f"scenario {seed}"))


def _compacted(plan: Plan, rng: random.Random) -> Plan:
    """The same with compacted topics; in some, copies of a compacted log are killed."""
    plan = replace(
        plan,
        compacts=True,
        segment_bytes=rng.choice((600, 1_000, 3_000)),
        pause_us=min(plan.pause_us, 200_000),
    )
    if rng.randrange(COPIES_ONE_IN):
        return plan
    plan = replace(
        plan, partitions=1, pause_us=60_000, length_ms=max(plan.length_ms, COPY_LENGTH_MS)
    )
    return replace(plan, faults=_in_a_row(plan, rng, COPY, each_ms=4_000))


def _with_scripted_ends(plan: Plan, rng: random.Random) -> Plan:
    """The same, or with faults that strike while transactions end."""
    if not rng.randrange(SCRIPTED_ENDS_ONE_IN):
        kind = rng.choice(SCRIPTS_OF_ENDS)
    elif not rng.randrange(DEATHS_ONE_IN):
        kind = "outcome of a dead coordinator"
        plan = replace(plan, length_ms=max(plan.length_ms, DEATHS_LENGTH_MS))
    else:
        return plan
    ends = _in_a_row(plan, rng, kind, each_ms=700)
    return replace(plan, pause_us=100_000, faults=ends)


def _scripted(plan: Plan, rng: random.Random) -> Plan:
    """The same with scripted faults in a row, and clients that write more."""
    kind = rng.choice(SCRIPTS)
    if not random.Random(f"lagging {plan.seed}").randrange(LAGGING_ONE_IN):
        kind = LAGGING
        plan = replace(plan, length_ms=max(plan.length_ms, LAGGING_LENGTH_MS))
    faults = _in_a_row(plan, rng, kind)
    return replace(plan, partitions=1, has_scribbler=True, pause_us=100_000, faults=faults)


def _in_a_row(plan: Plan, rng: random.Random, kind: str, each_ms: int = 3_000) -> tuple[Fault, ...]:
    first_ms = rng.randrange(1_000, 2_000)
    return tuple(
        Fault(at_ms, kind, 0, rng.randrange(1 << 16), 2_000)
        for at_ms in range(first_ms, plan.length_ms - 1_000, each_ms)
    )
