"""A broker of a simulated cluster: its disk, and the process that runs on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Final, cast

from odradek.broker.node.coordination import Coordination
from odradek.broker.node.node import Node
from odradek.broker.node.platform import Platform
from odradek.broker.node.start_error import StartError
from odradek.broker.node.storage_log import StorageLog
from odradek.broker.purgatory import Purgatory
from odradek.broker.replication.full_directories import FullDirectories
from odradek.broker.replication.partition import Partition
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.load import make_settings
from odradek.controller.coordination.commits import RunInThread
from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.coordination.session import CoordinationSession, EventCallback
from odradek.controller.coordination.zookeeper_connection import ZooKeeperOptions
from odradek.controller.membership.registration import RegistrationRefused
from odradek.runtime.descriptor_limit import share_out
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.scheduler import Scheduler
from odradek.runtime.tasks import Supervisor
from odradek.runtime.testing.memory_files import UNLIMITED_BYTES, MemoryFileSystem
from odradek.runtime.testing.memory_nodes import FileNode
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.runtime.timers import TimingWheel
from odradek.runtime.wheel_driver import WheelDriver
from odradek.storage.directories.log_manager import NoDirectoryLeft
from odradek.storage.files.descriptors import Descriptors
from tests.sim.cleaning_worker import SimulatedWorker
from tests.sim.ensemble import SimulatedSession
from tests.sim.loop import ProcessClock, ProcessEnded, SimulatedLoop
from tests.sim.network import Network, SimulatedListener, connector
from tests.sim.world import World

PORT: Final = 9092
SESSION_TIMEOUT_MS: Final = 1_500
RESTART_US: Final = 800_000
NO_THREADS: Final = cast(ThreadPoolExecutor, None)


@cache
def broker_settings(broker_id: int, written: tuple[tuple[str, str], ...]) -> BrokerSettings:
    """Those of one broker; made once for all seeds."""
    return make_settings(
        {
            "broker.id": str(broker_id),
            "log.dirs": "/a",
            "listeners": f"PLAINTEXT://broker-{broker_id}:{PORT}",
            "advertised.listeners": f"PLAINTEXT://broker-{broker_id}:{PORT}",
            "zookeeper.connect": "zookeeper:2181",
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "log.cleaner.enable": "false",
            **dict(written),
        }
    )


class UnmeasuredLoop(LoopWatch):
    """Measures nothing: time does not pass within a callback."""

    def ran(self, began_ns: int, what: object) -> int:
        """Nothing, in no time."""
        return 0


class ProcessFiles:
    """The disk as one process has it: unreachable when the process has ended."""

    def __init__(self, files: MemoryFileSystem, end: Callable[[], None]) -> None:
        self._files = files
        self._end = end
        self.is_ended = False

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._files, name)

        def guarded(*arguments: Any, **keywords: Any) -> Any:
            if self.is_ended:
                raise ProcessEnded
            return call(*arguments, **keywords)

        self.__dict__[name] = guarded
        return guarded


class Disk(MemoryFileSystem):
    """The disk of a broker, which may lose power in the midst of an operation."""

    def __init__(self, counts: Counter[str]) -> None:
        self.counts = counts
        self.cut_at = -1
        """The number of the operation at which the power is cut."""
        self.has_forgotten = False
        """An operation has failed.  If it was a sync, what was written before it may vanish with
        the power, also after a later sync that succeeds: no software notices, so the power stays
        on."""
        self.is_failing = False
        """An operation has failed in this life of the process, which is about to end by it."""
        super().__init__(folders=("/a",))
        self.on_cut: Callable[[], None] = lambda: None
        self.may_cut: Callable[[], bool] = lambda: True
        """Asked when that operation has come."""
        self.may_fail: Callable[[], bool] = lambda: True
        """Asked when an operation is to fail: it is spared otherwise."""

    def count_operation(self, path: str) -> None:
        if not self._failures and self.cut_at < 0:
            self.operations += 1
            return
        if self.operations + 1 in self._failures and not self.may_fail():
            del self._failures[self.operations + 1]
        failures = len(self._failures)
        try:
            super().count_operation(path)
        except OSError:
            if len(self._failures) < failures:
                self.counts["disk error"] += 1
                self.has_forgotten = self.is_failing = True
            raise
        if self.operations == self.cut_at:
            self.cut_at = -1
            if self.may_cut():
                self.on_cut()
                raise ProcessEnded

    def forget_failures(self) -> None:
        """No operation fails any more."""
        self._failures.clear()

    def check_space(self, more_bytes: int, path: str) -> None:
        try:
            super().check_space(more_bytes, path)
        except OSError:
            self.counts["disk full"] += 1
            raise


class SimulatedPlatform(Platform):
    """The platform of a process: everything is simulated."""

    def __init__(self, process: Process, loop: Any, on_fatal: Callable[[str], None]) -> None:
        self.loop = loop
        self.on_fatal = on_fatal
        self._counts = process.world.counts
        self.files = process.files
        self.clock = process.clock
        self.rng = SeededRandomness(  # type: ignore[assignment]
            process.world.random.randrange(1 << 30)
        )
        self.executor = self.coordination_executor = NO_THREADS
        self.supervisor = Supervisor(loop, self.on_task_failure)
        self.metrics = BrokerMetrics()
        self.loop_watch = UnmeasuredLoop(self.metrics)
        self.wheel = WheelDriver(
            loop, self.clock, TimingWheel(self.clock.monotonic_ms()), self.loop_watch
        )
        self.peer_clock, self.peer_wheel = self.clock, self.wheel
        self.scheduler = Scheduler(
            loop.call_soon, "requests", now_ns=process.world.slice_clock, watch=self.loop_watch
        )
        self.wheel.wait_for(self.scheduler)
        self.purgatory = Purgatory(self.wheel, self.metrics, self.scheduler.add)
        self.wheel.after_each_turn(self.purgatory.run_notified)
        self.shares = share_out(20_000)
        self.full_directories = FullDirectories()
        self.descriptors = Descriptors(
            self.files,
            open_max=self.shares.files,
            report=StorageLog(self.clock.monotonic_ms, self.full_directories.note_refused),
        )

    def make_cleaning_worker(self) -> Any:
        """The product's cleaning, in place of a process of its own."""
        return SimulatedWorker(self.loop, self.files, self._counts)

    def close(self) -> None:
        """There are no threads."""


class SimulatedCoordination:
    """Sessions of one process with the simulated ensemble."""

    is_embedded = False

    def __init__(self, process: Process, after: Callable[[], None]) -> None:
        self._process = process
        self._after = after

    def connect(self, on_event: EventCallback) -> CoordinationSession:
        options = ZooKeeperOptions(
            hosts="zookeeper",
            chroot="",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            connection_timeout_ms=2 * SESSION_TIMEOUT_MS,
            in_flight_max=10,
        )
        return SimulatedSession(
            self._process.network, self._process.host, options, on_event, after=self._after
        )

    def serve(
        self,
        run_in_thread: RunInThread,
        *,
        on_failure: Callable[[str], None],
        on_warning: Callable[[str], None],
    ) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class SimulatedNode(Node):
    """The product's node, without sockets."""

    def __init__(self, process: Process, loop: Any, settings: BrokerSettings) -> None:
        self._process = process
        super().__init__(loop, settings)

    def _open_platform(self) -> Platform:
        return SimulatedPlatform(self._process, self._loop, self._on_fatal)

    def _open_coordination(self, settings: BrokerSettings) -> Coordination:
        return SimulatedCoordination(self._process, self._platform.purgatory.run_notified)

    def _bind(self, settings: BrokerSettings) -> None:
        listener = SimulatedListener("PLAINTEXT", self._process.host, PORT)
        self.listeners.append(listener)  # type: ignore[arg-type]

    def _accept(self) -> None:
        (listener,) = self.listeners
        cast(Any, listener).serve(self.server, self._loop)
        self._process.is_serving = True


class Process:
    """A broker: its disk lasts, its process is started, killed, paused and stopped."""

    def __init__(
        self,
        world: World,
        network: Network,
        broker_id: int,
        written: dict[str, str],
        *,
        after_turn: Callable[[Process], bool],
        is_heard: Callable[[int], bool],
    ) -> None:
        """after_turn  as `on_turn` of a loop, for the process
        is_heard    (session id) -> whether the coordination service has just heard of it
        """
        self.world = world
        self.network = network
        self.broker_id = broker_id
        self.host = network.host(f"broker-{broker_id}")
        self.disk = Disk(world.counts)
        self.clock = ProcessClock(world, 0)
        self.life = 0
        self.is_up = False
        self.is_serving = False
        self.is_stopping = False
        self.on_truncation: Callable[[], None] | None = None
        """Called once, when a log is being truncated."""
        self.views: dict[Partition, Any] = {}
        """What the oracle saw of each replica last."""
        self.cuts: dict[Partition, int] = {}
        """How many truncations of each replica the oracle has looked at."""
        self.controller_epoch = 0
        """That the broker knew last."""
        self.positions: dict[FileNode, tuple[int, int]] = {}
        """An offset in each file and its position, from which the oracle reads on."""
        self.files = ProcessFiles(self.disk, lambda: None)
        self.node: SimulatedNode | None = None
        self.settings = broker_settings(broker_id, tuple(written.items()))
        self._after_turn = after_turn
        self._is_heard = is_heard

    @property
    def loop(self) -> SimulatedLoop:
        assert self.host.loop is not None
        return self.host.loop

    def session_id(self) -> int:
        """Of the process that is up; 0 for none."""
        if not self.is_up or self.node is None:
            return 0
        return self.node.services.controller._session.session_id

    def has_session(self) -> bool:
        """Whether the coordination service has just heard of it."""
        return self._is_heard(self.session_id())

    def start(self) -> None:
        """Start on what is on the disk."""
        assert not self.is_up
        self.life += 1
        self.is_up, self.is_serving, self.is_stopping = True, False, False
        self.host.is_powered = True
        self.views, self.positions, self.cuts = {}, {}, {}
        self.controller_epoch = 0
        self.files = ProcessFiles(self.disk, lambda: None)
        self.disk.on_cut = self._on_cut
        self.disk.is_failing = False
        loop = self.host.loop = SimulatedLoop(
            self.world,
            on_turn=partial(self._after_turn, self),
            connect=connector(self.network, self.host),
        )
        self.world.note(f"broker {self.broker_id} starts")
        loop.call_soon(lambda: loop.create_task(self._run(loop)))

    async def _run(self, loop: SimulatedLoop) -> None:
        failure: BaseException | None = None
        try:
            node = self.node = SimulatedNode(self, loop, self.settings)
            try:
                await node._start()
                await node.run_until_stopped()
            except (
                StartError,
                CoordinationError,
                NoDirectoryLeft,
                RegistrationRefused,
                OSError,
            ) as error:
                failure = error
                await node.stop()
        except (StartError, CoordinationError, NoDirectoryLeft, OSError) as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - the simulation fails
            failure = error
            self.world.trouble = error
        if not loop.is_ended:
            why = "" if failure is None else f" by itself: {failure!r}"
            self.world.note(f"broker {self.broker_id} stops{why}")
            self._end(loop)
            self.disk.kill()
            self.network.end_connections(loop)
            life = self.life
            self.world.after(RESTART_US, lambda: self.start_again(life))

    def start_again(self, life: int) -> None:
        """As what watches over a process does."""
        if not self.is_up and self.life == life and self.host.is_powered:
            self.start()

    def _end(self, loop: SimulatedLoop) -> None:
        loop.end()
        self.files.is_ended = True
        self.is_up = self.is_serving = False
        self.host.accept = None
        self.disk.cut_at = -1
        self.disk.capacity_bytes = UNLIMITED_BYTES

    def _on_cut(self) -> None:
        """The power fails within an operation of the disk."""
        loop = self.loop
        self._end(loop)
        self.host.is_powered = False
        self.world.after(0, self._lose_unsynced)

    def _lose_unsynced(self) -> None:
        self.world.note(f"broker {self.broker_id} loses power")
        self.world.counts["power cut"] += 1
        before = self.disk.used_bytes()
        self.disk.crash(SeededRandomness(self.world.random.randrange(1 << 30)))
        if self.disk.used_bytes() < before:
            self.world.counts["power cut with torn writes"] += 1
        self._after_turn(self)

    def cut_power(self, operation: int) -> None:
        """Lose power, now or at a later operation of the disk."""
        if operation:
            self.disk.cut_at = self.disk.operations + operation
        else:
            self._on_cut()

    def kill(self) -> None:
        """As kill -9."""
        loop = self.loop
        self.world.note(f"broker {self.broker_id} is killed")
        self.world.counts["kill"] += 1
        self._end(loop)
        self.disk.kill()
        self.network.end_connections(loop)
        self._after_turn(self)

    def lose_disk(self) -> None:
        """The disk of a process that has ended is replaced by an empty one."""
        assert not self.is_up, "its files are not open"
        self.world.note(f"broker {self.broker_id} gets a new disk")
        for name in self.disk.list("/a"):
            path = f"/a/{name}"
            if self.disk.is_directory(path):
                self.disk.remove_tree(path)
            else:
                self.disk.remove(path)

    def stop(self) -> None:
        """Stop in order."""
        if self.is_serving and self.node is not None and not self.is_stopping:
            self.is_stopping = True
            self.world.note(f"broker {self.broker_id} is asked to stop")
            self.world.counts["orderly stop"] += 1
            self.loop.post(0, self.node.request_stop)
