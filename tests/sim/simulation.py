"""One seed: a cluster, its clients and its faults, until everything works again.

python -m tests.sim.simulation SEED [--faults 0,3]
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from odradek.broker.auto_topic_creation import first_use_topic
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.protocol.topic_partition import TopicPartition
from tests.sim.administration import Administration
from tests.sim.clients import (
    TOPIC,
    ClientHost,
    Consumer,
    EndReader,
    LastReader,
    Producer,
    Scribbler,
)
from tests.sim.ensemble import HOST, Ensemble
from tests.sim.faults import CLOCK_MS_MAX, Faults
from tests.sim.group_workload import GroupWorkload
from tests.sim.network import Network
from tests.sim.oracle import Oracle
from tests.sim.plan import BROKERS, TRANSACTIONAL_CLOCK_MS_MAX, Plan, make_plan
from tests.sim.process import Process
from tests.sim.transactional_workload import TransactionalWorkload
from tests.sim.world import Broken, Ticks, World

END_PAUSE_US: Final = 20_000
CALM_STEP_MS: Final = 250
CALM_MAX_MS: Final = 90_000
LEVEL_STEPS_MAX: Final = 1_000
IDLE_MS: Final = 1_500
READ_MAX_MS: Final = 10_000
READ_STEP_MS: Final = 5


class LoggedErrors(logging.Handler):
    """Exceptions that the broker has logged: none is expected."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and self._world.trouble is None:
            self._world.trouble = self.format(record)


@dataclass
class Result:
    """What a seed has come to."""

    seed: int
    failure: str | None
    history: list[str]
    events: int
    faults: int
    counts: dict[str, int]
    """How often faults had an effect, by kind."""
    acknowledged: int


class Simulation:
    """A cluster with its clients."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World(plan.seed)
        self.network = Network(
            self.world,
            long_one_in=plan.long_delay_one_in,
            # A session that a delay ends is one more fault: not while records are exposed.
            prompt_host=HOST if plan.loses_records() else "",
        )
        self.ensemble = Ensemble(self.world, self.network)
        if not plan.is_new:
            self.ensemble.create_roots()
        self.oracle = Oracle(self.world, self.ensemble, compacts=plan.compacts)
        self.errors = LoggedErrors(self.world)
        self.processes = {
            broker_id: Process(
                self.world,
                self.network,
                broker_id,
                plan.settings(),
                after_turn=self.oracle.after_turn,
                is_heard=self.ensemble.is_heard,
            )
            for broker_id in range(1, BROKERS + 1)
        }
        self.oracle.processes = self.processes
        self.administration = Administration(self.world, self.ensemble, self.oracle, self._keys())
        self.faults = Faults(
            self.world,
            self.network,
            self.ensemble,
            self.oracle,
            self._keys(),
            self.administration,
            flushes=plan.flushes,
            clock_ms_max=TRANSACTIONAL_CLOCK_MS_MAX if plan.transactional_clients else CLOCK_MS_MAX,
        )
        self.producers: list[Producer] = []
        self.scribblers: list[Scribbler] = []
        self.clients: ClientHost | None = None
        self.workload: TransactionalWorkload | None = None
        self.groups: GroupWorkload | None = None

    def partition_keys(self) -> list[TopicPartition]:
        return [TopicPartition(TOPIC, index) for index in range(self.plan.partitions)]

    def _internal_keys(self) -> list[TopicPartition]:
        return [
            TopicPartition(spec.name, index)
            for spec in self._internal_topics()
            for index in range(spec.partitions)
        ]

    def _internal_topics(self) -> list[CreateTopicSpec]:
        """As a broker creates them on first use."""
        settings = self.processes[1].settings
        return [
            first_use_topic(name, settings, broker_count=BROKERS)
            for name in self.plan.internal_topics()
        ]

    def _keys(self) -> list[TopicPartition]:
        return [*self.partition_keys(), *self._internal_keys()]

    def run(self) -> None:
        """The whole history.

        raises  Broken
        """
        world = self.world
        world.is_calm = True
        for process in self.processes.values():
            process.start()
        self._create_topic()
        world.is_calm = False
        clients = ClientHost(world, self.network, self.oracle, list(self.processes))
        self.producers = [
            Producer(clients, f"producer-{number}", self.partition_keys(), self.plan.pause_us)
            for number in range(self.plan.producers)
        ]
        if self.plan.has_scribbler:
            self.scribblers = [Scribbler(clients, self._lasting_keys, self.plan.pause_us)]
        self.clients = clients
        Consumer(clients, self.partition_keys(), 2 * self.plan.pause_us)
        if self.plan.has_end_reader:
            EndReader(clients, self.partition_keys(), END_PAUSE_US)
        if self.plan.transactional_clients:
            self.workload = TransactionalWorkload(
                self.plan, clients, self.oracle, self.partition_keys()
            )
        if self.plan.group_members:
            self.groups = GroupWorkload(self.plan, clients, self.oracle, self.partition_keys())
        self.faults.schedule(self.plan.faults)
        self._run_until(self.plan.length_ms)
        self.faults.end_all()
        self._settle()

    def _run_until(self, until_ms: int) -> None:
        self.world.run(until_ms)

    def _create_topic(self) -> None:
        """By the active controller, once every broker is registered."""
        for until_ms in range(100, 2_000, 100):
            self._run_until(until_ms)
            if self._ask_for_topics():
                return
        self.world.fail("the cluster does not start")

    def _ask_for_topics(self) -> bool:
        specs = [CreateTopicSpec(TOPIC, self.plan.partitions, BROKERS), *self._internal_topics()]
        for process in self.processes.values():
            if process.node is None or not process.is_serving:
                continue
            controller = process.node.services.controller
            if len(controller.image.brokers) == BROKERS and controller.is_active:
                create_topic = controller.admin.create_topic
                process.loop.call_soon(lambda create=create_topic: [*map(create, specs)])
                return True
        return False

    def _settle(self) -> None:
        """Wait until all is well, end the clients' work, and compare everything."""
        world = self.world
        start_ms = world.elapsed_ms
        why: str | None = "nothing was tried"
        is_stopped = False
        while why is not None or not is_stopped:
            if world.elapsed_ms > start_ms + CALM_MAX_MS:
                world.fail(f"after {CALM_MAX_MS} ms without faults: {why}")
            if any(self.oracle.state_of(key) is None for key in self._keys()):
                # A fault has met the request of the beginning; clients ask again.
                self._ask_for_topics()
            self._run_until(world.elapsed_ms + CALM_STEP_MS)
            why = self._trouble(is_stopped=is_stopped)
            if why is None and not is_stopped:
                is_stopped = True
                for producer in self.producers:
                    producer.is_stopped = True
                for scribbler in self.scribblers:
                    scribbler.is_stopped = True
                if self.workload is not None:
                    self.workload.stop()
                why = "clients have been stopped just now"
        self._run_until(world.elapsed_ms + IDLE_MS)
        for _ in range(LEVEL_STEPS_MAX):
            if not any(self.oracle.unlevel(key) for key in self._lasting_keys()):
                break
            # Coordinators write also when no client does.
            self._run_until(world.elapsed_ms + 1)
        for key in self._lasting_keys():
            self.oracle.check_end(key)
        if self.workload is not None:
            self.workload.check_end()
        if self.groups is not None:
            self.groups.check_end()
        self._read_all()

    def _read_all(self) -> None:
        """A consumer gets each record that is committed, and so each that was acknowledged."""
        assert self.clients is not None, "it runs"
        reader = LastReader(self.clients, self._lasting_keys())
        deadline_ms = self.world.elapsed_ms + READ_MAX_MS
        while (why := reader.missing()) is not None:
            if self.world.elapsed_ms > deadline_ms:
                self.world.fail(f"after {READ_MAX_MS} ms: {why}")
            self._run_until(self.world.elapsed_ms + READ_STEP_MS)

    def _lasting_keys(self) -> list[TopicPartition]:
        return [*self._keys(), *self.administration.kept]

    def _trouble(self, *, is_stopped: bool) -> str | None:
        why = self.administration.trouble()
        if why is not None:
            return why
        for key in self._lasting_keys():
            state = self.oracle.state_of(key)
            if state is None or len(state.isr) < BROKERS:
                return f"{key}: {state}"
        if is_stopped:
            if self.workload is not None:
                why = self.workload.trouble(self._internal_keys())
                if why is not None:
                    return why
            for producer in self.producers:
                if producer.waiting:
                    return f"{producer.name} waits for {producer.waiting}"
            if self.groups is not None:
                why = self.groups.trouble()
                if why is not None:
                    return why
            for key in self._lasting_keys():
                why = self.oracle.unlevel(key)
                if why is not None:
                    return why
        return None


def _replace_clock(old: Callable[[], int], new: Callable[[], int]) -> None:
    """Replace `monotonic_ns` in the modules of the product, and where further ones import it."""
    for name, module in tuple(sys.modules.items()):
        is_product = name.startswith("odradek.") or module is time
        if is_product and vars(module).get("monotonic_ns") is old:
            vars(module)["monotonic_ns"] = new


@contextmanager
def _counted_time(ticks: Ticks) -> Iterator[None]:
    """Replace the clock by which the product measures its slices."""
    of_machine = time.monotonic_ns
    _replace_clock(of_machine, ticks)
    try:
        yield
    finally:
        _replace_clock(ticks, of_machine)


@contextmanager
def _apart(errors: LoggedErrors) -> Iterator[None]:
    """Have the product log to the simulation, and collect nothing: a future that is collected may
    add a line to the history."""
    root = logging.getLogger("odradek")
    level, propagates = root.level, root.propagate
    root.setLevel(logging.ERROR)
    root.propagate = False
    was_enabled = gc.isenabled()
    gc.disable()
    # What a process had not begun when it ended.
    warnings.filterwarnings("ignore", message="coroutine .* was never awaited")
    root.addHandler(errors)
    try:
        yield
    finally:
        root.removeHandler(errors)
        root.setLevel(level)
        root.propagate = propagates
        if was_enabled:
            gc.enable()


def run_plan(plan: Plan) -> Result:
    """Run a plan; exceptions of the product are failures."""
    simulation = Simulation(plan)
    with _counted_time(simulation.world.slice_clock), _apart(simulation.errors):
        return _result(simulation, _failure(simulation))


def _failure(simulation: Simulation) -> str | None:
    try:
        simulation.run()
    except Broken as broken:
        return str(broken) or repr(broken)
    except AssertionError as broken:
        return f"{broken!r} at {broken.__traceback__.tb_lineno}"  # type: ignore[union-attr]
    return None


def _result(simulation: Simulation, failure: str | None) -> Result:
    world = simulation.world
    acknowledged = sum(
        len(partition.acknowledged) for partition in simulation.oracle.partitions.values()
    )
    return Result(
        seed=simulation.plan.seed,
        failure=failure,
        history=list(world.history),
        events=world.events,
        faults=simulation.faults.made,
        counts=dict(world.counts),
        acknowledged=acknowledged,
    )


def run_seed(seed: int) -> Result:
    return run_plan(make_plan(seed))


def shortest(plan: Plan) -> tuple[list[int], Result]:
    """The fewest faults with which the plan still fails, and that result."""
    kept = list(range(len(plan.faults)))
    result = run_plan(plan)
    size = max(1, len(kept) // 2)
    while size:
        start = 0
        while start < len(kept):
            fewer = kept[:start] + kept[start + size :]
            tried = run_plan(plan.with_faults(fewer))
            if tried.failure is not None:
                kept, result = fewer, tried
            else:
                start += size
        size //= 2
    return kept, result


def report(result: Result, plan: Plan, kept: list[int]) -> str:
    """What a developer needs of a failing seed."""
    numbers = ",".join(map(str, kept))
    return "\n".join(
        [
            f"seed {plan.seed}: {result.failure}",
            f"cluster: {plan.settings()}",
            *(str(plan.faults[number]) for number in kept),
            "history:",
            *result.history,
            f"repeat: .venv/bin/python -m tests.sim.simulation {plan.seed} --faults {numbers!r}",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--faults", help="the numbers of the faults that happen, by commas")
    arguments = parser.parse_args()
    plan = make_plan(arguments.seed)
    if arguments.faults is not None:
        kept = [int(number) for number in arguments.faults.split(",") if number]
        result = run_plan(plan.with_faults(kept))
    else:
        kept, result = list(range(len(plan.faults))), run_plan(plan)
        if result.failure is not None:
            kept, result = shortest(plan)
    if result.failure is not None:
        print(report(result, plan, kept))
        raise SystemExit(1)
    print(f"seed {plan.seed}: {result}")


if __name__ == "__main__":
    main()
