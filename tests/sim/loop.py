"""The event loop of one simulated process, and its clock.

It does what the broker asks of asyncio's loops: callbacks, timers, tasks, work in threads,
connections.  Work in a thread happens at one moment, after a while.  A paused process keeps what is
due until it goes on; a process that has ended drops it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Final

from tests.sim.world import START_US, World

DISK_US: Final = (50, 100, 300, 1_000, 3_000, 20_000)
"""How long work in a thread waits, one of these at random."""


class ProcessEnded(BaseException):
    """The process ends here: nothing of it may catch this."""

    errno = 5
    strerror = "the process has ended"


class ProcessClock:
    """Wall time with the offset of the host, monotonic time of the host."""

    def __init__(self, world: World, offset_ms: int) -> None:
        self._world = world
        self.offset_ms = offset_ms

    def now_ms(self) -> int:
        return self._world.now_us // 1_000 + self.offset_ms

    def monotonic_ms(self) -> int:
        return (self._world.now_us - START_US) // 1_000 + 1_000_000


class SimulatedHandle:
    """A callback that can be cancelled."""

    __slots__ = ("arguments", "callback")

    is_arrival: ClassVar = False

    def __init__(self, callback: Callable[..., object] | None, arguments: tuple[Any, ...]) -> None:
        self.callback = callback
        self.arguments = arguments

    def cancel(self) -> None:
        self.callback = None
        self.arguments = ()


class Arrival(SimulatedHandle):
    """What a connection gets that only keeps it: another turn handles it."""

    __slots__ = ()

    is_arrival: ClassVar = True


class SimulatedLoop:
    """One for each life of a process.

    on_turn  called after the callbacks of a turn that are not arrivals only; returns whether it has
             to be called after those turns, too
    connect  (protocol factory, host, port) -> transport and protocol
    """

    def __init__(
        self,
        world: World,
        *,
        on_turn: Callable[[], bool],
        connect: Callable[[SimulatedLoop, Callable[[], Any], str, int], Coroutine[Any, Any, Any]],
    ) -> None:
        self.world = world
        self.is_ended = False
        self.is_paused = False
        self.slowness = 1
        """How many times longer than usual work in threads waits."""
        self._on_turn = on_turn
        self._is_each_turn_seen = True
        self._connect = connect
        self._ready: deque[SimulatedHandle] = deque()
        self._dropped: list[SimulatedHandle] = []
        """Callbacks that never run.  They are kept: a coroutine that is collected runs its
        `finally`, which no process does that has ended."""
        self._is_awake = False
        self._paused: list[Callable[[], None]] = []
        self.readers: dict[int, Callable[[], None]] = {}
        self.on_reader_added: Callable[[int], None] = lambda descriptor: None

    # What the simulation does with the process.

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        """Everything that was due meanwhile happens now."""
        self.is_paused = False
        paused, self._paused = self._paused, []
        for call in paused:
            call()
        self._wake()

    def end(self) -> None:
        """Run nothing any more."""
        self.is_ended = True
        self._dropped += self._ready
        self._ready.clear()

    def post_now(self, handle: SimulatedHandle) -> None:
        """Call in this process, when it is not paused."""
        if self.is_paused:
            self._paused.append(lambda: self.post_now(handle))
            return
        self._ready.append(handle)
        if not self._is_awake:
            self._is_awake = True
            self.world.soon(self._turn)

    def post(self, delay_us: int, call: Callable[[], None]) -> None:
        """Call later, in this process."""

        def due() -> None:
            if self.is_paused:
                self._paused.append(due)
            elif not self.is_ended:
                self.call_soon(call)

        self.world.after(delay_us, due)

    def _wake(self) -> None:
        if self._ready and not self._is_awake and not self.is_paused:
            self._is_awake = True
            self.world.soon(self._turn)

    def _turn(self) -> None:
        self._is_awake = False
        if self.is_ended or self.is_paused:
            return
        ready = self._ready
        if self.world.running is not self:
            self.world.set_running(self)
        is_seen = self._is_each_turn_seen
        try:
            for _ in range(len(ready)):
                handle = ready.popleft()
                callback = handle.callback
                if callback is not None:
                    is_seen = is_seen or not handle.is_arrival
                    callback(*handle.arguments)
                    if self.is_ended or not ready:
                        break
        except ProcessEnded:
            pass
        if is_seen:
            self._is_each_turn_seen = self._on_turn()
        if ready:
            self._wake()

    # What the broker asks of a loop.

    def call_soon(
        self, callback: Callable[..., object], *arguments: Any, context: object = None
    ) -> SimulatedHandle:
        handle = SimulatedHandle(callback, arguments)
        if not self.is_ended:
            self._ready.append(handle)
            if not self._is_awake:
                self._wake()
        else:
            self._dropped.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay_s: float,
        callback: Callable[..., object],
        *arguments: Any,
        context: object = None,
    ) -> SimulatedHandle:
        handle = SimulatedHandle(callback, arguments)

        def due() -> None:
            if handle.callback is None or self.is_ended:
                return
            if self.is_paused:
                self._paused.append(due)
            else:
                self._ready.append(handle)
                self._wake()

        self.world.after(max(0, round(delay_s * 1_000_000)), due)
        return handle

    def call_at(
        self,
        when_s: float,
        callback: Callable[..., object],
        *arguments: Any,
        context: object = None,
    ) -> SimulatedHandle:
        return self.call_later(when_s - self.time(), callback, *arguments)

    def time(self) -> float:
        return (self.world.now_us - START_US) / 1_000_000

    def create_task(
        self, work: Coroutine[Any, Any, Any], *, name: str | None = None, context: object = None
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=self, name=name)  # type: ignore[arg-type]
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        return task

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def run_in_executor(
        self, executor: object, work: Callable[..., Any], *arguments: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                result = work(*arguments)
            except Exception as error:  # noqa: BLE001 - the future has it
                future.set_exception(error)
                future.exception()
            else:
                future.set_result(result)

        self.post(self.world.random.choice(DISK_US) * self.slowness, run)
        return future

    async def create_connection(
        self, factory: Callable[[], Any], host: str, port: int
    ) -> tuple[Any, Any]:
        result: tuple[Any, Any] = await self._connect(self, factory, host, port)
        return result

    def add_reader(self, descriptor: int, callback: Callable[[], None]) -> None:
        self.readers[descriptor] = callback
        self.on_reader_added(descriptor)

    def remove_reader(self, descriptor: int) -> bool:
        return self.readers.pop(descriptor, None) is not None

    def remove_writer(self, descriptor: int) -> bool:
        """Writers are never needed: a simulated socket takes everything."""
        return False

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        exception = context.get("exception")
        # Python collects tasks of ended processes when it likes.
        if not isinstance(exception, ProcessEnded):
            self.world.note(f"exception in a task: {context.get('message')}: {exception!r}")
