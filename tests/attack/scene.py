"""What an attack finds: a broker of its own, an honest client beside it, and bars to stay below."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.attack.canary import PROBES, Canary
from tests.scripts.talk import Talk
from tests.support.broker_process import GIVE_BACK, BrokerProcess
from tests.support.ports import free_port
from tests.support.processes import ProcessFailed
from tests.support.wire import Closed, Wire

CANARY_TOPIC = "canary"
AFTER_S = 1.0
SETTLED_TIMEOUT_S = 15.0
MEBIBYTE = 1 << 20


class Hurt(AssertionError):
    """The attack has done what it should not."""


@dataclass(frozen=True, slots=True)
class Bars:
    """What the honest client may see; a machine that is busy with other things gets wider ones.

    The p99 may be `p99_factor` times the quiet one, and always `p99_least_ms`; the worst wait
    `worst_ms`, or `worst_factor` times the worst quiet one.
    """

    p99_factor: float = 5.0
    p99_least_ms: float = 50.0
    worst_ms: float = 250.0
    worst_factor: float = 3.0
    rss_bytes: int = 400 * MEBIBYTE
    """At the peak."""
    settled_rss_bytes: int = 256 * MEBIBYTE
    """More than before the attack, once it is over: what the settings let clients keep."""
    quiet_s: float = 2.0
    """How long the honest client is watched before the attack."""


RELAXED = Bars(
    p99_factor=100.0,
    p99_least_ms=10_000.0,
    worst_ms=20_000.0,
    rss_bytes=640 * MEBIBYTE,
    quiet_s=0.5,
)
"""For `make test`: that others are served at all, on any machine.  On a busy one, requests arrive
before the ends of earlier connections are seen; the settings let requests under way take
256 MiB, and members of groups as much."""


class Memory(threading.Thread):
    """The greatest resident memory of a process."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self.peak_bytes = 0
        self._ended = threading.Event()

    def run(self) -> None:
        """Every 20 ms."""
        while not self._ended.wait(0.02):
            try:
                self.peak_bytes = max(self.peak_bytes, self._broker.process.rss_bytes())
            except (OSError, AssertionError, IndexError):
                continue

    def end(self) -> int:
        """The peak."""
        self._ended.set()
        self.join()
        return self.peak_bytes


@dataclass(slots=True)
class Scene:
    """One broker under attack."""

    broker: BrokerProcess
    random: Random
    bars: Bars
    scale: float = 1.0
    """1 the whole attack; less where it should be quick."""
    figures: dict[str, Any] = field(default_factory=dict)
    resources: ExitStack = field(default_factory=ExitStack)

    def wire(self, timeout_s: float = 120.0) -> Wire:
        """One more connection, until the attack is over."""
        return self.resources.enter_context(Wire(self.broker.address, timeout_s=timeout_s))

    def count(self, whole: int, least: int = 1) -> int:
        """How many the attack takes at its scale; `whole` is the count at 1."""
        return max(least, int(whole * self.scale))

    def require(self, condition: object, text: str) -> None:
        """The attack has failed to do harm."""
        if not condition:
            raise Hurt(text)

    def topic(self, name: str, partitions: int = 1) -> None:
        """A topic that serves."""
        talk = Talk(self.broker.address)
        talk.make_topic(name, partitions)
        talk.close()

    def coordinator(self) -> None:
        """The groups' topic is there, so that the first of them does not pay for it."""
        talk = Talk(self.broker.address)
        request = FindCoordinatorRequest(key="", key_type=0, coordinator_keys=["any"])
        talk.until(
            "a coordinator",
            lambda: talk.quiet(request, 4),
            lambda response: response.coordinators[0].error_code == 0,
        )
        talk.close()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """What happens within is the attack: the honest client beside it must stay below the bars,
        memory too, and the broker works afterwards without an error in its log."""
        pause = threading.Event()
        self.topic(CANARY_TOPIC)
        with Canary(self.broker.address, CANARY_TOPIC) as canary:
            canary.take()
            pause.wait(self.bars.quiet_s)
            quiet = canary.take()
            before_bytes = self.broker.process.rss_bytes()
            memory = Memory(self.broker)
            memory.start()
            began_s = time.monotonic()
            try:
                yield
            finally:
                self.figures["attack_s"] = round(time.monotonic() - began_s, 2)
                seen = canary.take()
                peak_bytes = memory.end()
                self.resources.close()
            pause.wait(AFTER_S)
            after = canary.take()
        for name in quiet:
            self.figures[name] = {
                "quiet_p99_ms": quiet[name].p99_ms,
                "quiet_worst_ms": quiet[name].worst_ms,
                "p99_ms": seen[name].p99_ms,
                "worst_ms": max(seen[name].worst_ms, after[name].worst_ms),
                "failures": seen[name].failures + after[name].failures,
            }
        after_bytes = self._settled_bytes(before_bytes)
        self.figures["rss_mib"] = [
            round(rss_bytes / MEBIBYTE, 1) for rss_bytes in (before_bytes, peak_bytes, after_bytes)
        ]
        self._judge(before_bytes, peak_bytes, after_bytes)

    def _settled_bytes(self, before_bytes: int) -> int:
        """The memory once what is allowed to stay is left, or after a while that is long enough."""
        process = self.broker.process
        deadline_s = time.monotonic() + SETTLED_TIMEOUT_S
        while process.running():
            rss_bytes = process.rss_bytes()
            is_settled = rss_bytes - before_bytes <= self.bars.settled_rss_bytes
            if is_settled or time.monotonic() > deadline_s:
                return rss_bytes
            threading.Event().wait(0.1)
        return 0

    def _judge(self, before_bytes: int, peak_bytes: int, after_bytes: int) -> None:
        bars = self.bars
        for name in PROBES:
            seen = self.figures[name]
            p99_max_ms = max(bars.p99_least_ms, bars.p99_factor * seen["quiet_p99_ms"])
            self.require(not seen["failures"], f"{name}: {seen['failures']} requests failed")
            worst_max_ms = max(bars.worst_ms, bars.worst_factor * seen["quiet_worst_ms"])
            self.require(seen["worst_ms"] <= worst_max_ms, f"{name}: {seen['worst_ms']} ms")
            self.require(seen["p99_ms"] <= p99_max_ms, f"{name}: p99 {seen['p99_ms']} ms")
        self.require(peak_bytes <= bars.rss_bytes, f"memory rose to {peak_bytes:,} bytes")
        settled_bytes = after_bytes - before_bytes
        self.require(settled_bytes <= bars.settled_rss_bytes, f"{settled_bytes:,} bytes are kept")

    def check_alive(self) -> None:
        """The broker runs, serves, and has logged no error."""
        process = self.broker.process
        self.require(process.running(), f"the broker has ended:\n{process.tail()}")
        name = f"after-{self.random.getrandbits(32)}"
        topic = CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        with Wire(self.broker.address) as wire:
            made = wire.call(CreateTopicsRequest(topics=[topic]), 7)
            self.require(made.topics[0].error_code == 0, f"no topic can be made: {made}")
        errors = [line for line in process.lines() if is_error(line)]
        self.require(not errors, f"{len(errors)} errors are logged: {errors[:1]}")


def is_error(line: str) -> bool:
    """Whether a line of the log is an error or the begin of a traceback."""
    return " ERROR " in line or " CRITICAL " in line or line.startswith("Traceback")


@dataclass(frozen=True, slots=True)
class Attack:
    """One of the campaign; `finding` is its number in the report that it came from."""

    name: str
    run: Callable[[Scene], None]
    finding: int
    is_quick: bool
    """Part of `make test`."""
    overrides: Mapping[str, str]
    ports: Sequence[str]
    """Settings that name a port: each broker has another one."""
    limits: Mapping[int, int | tuple[int, int]]


ATTACKS: dict[str, Attack] = {}


def attack(
    finding: int,
    *,
    is_quick: bool = False,
    overrides: Mapping[str, str] | None = None,
    ports: Sequence[str] = (),
    limits: Mapping[int, int | tuple[int, int]] | None = None,
) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Take a function into the campaign, under its own name."""

    def register(run: Callable[[Scene], None]) -> Callable[[Scene], None]:
        name = run.__name__
        ATTACKS[name] = Attack(name, run, finding, is_quick, overrides or {}, ports, limits or {})
        return run

    return register


def perform(
    attack: Attack, *, seed: int, bars: Bars, scale: float = 1.0
) -> tuple[dict[str, Any], str | None]:
    """Run one attack on a new broker; its figures, and what it has done if it has done harm."""
    overrides = {**attack.overrides, **{name: str(free_port()) for name in attack.ports}}
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        broker = BrokerProcess(
            Path(folder), overrides=overrides, limits=attack.limits, environment=GIVE_BACK
        )
        scene = Scene(broker.start(), Random(f"{attack.name} {seed}"), bars, scale)
        harm = None
        try:
            attack.run(scene)
            scene.check_alive()
        except (Hurt, Closed, OSError, ProcessFailed, AssertionError) as error:
            harm = f"{type(error).__name__}: {error}"
        finally:
            scene.resources.close()
            broker.close()
    return scene.figures, harm
