"""Work in threads, with its end on the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from odradek.runtime.thread_work import ThreadWork

Scene = Callable[[ThreadWork, list[Any]], Coroutine[Any, Any, None]]


def play(scene: Scene) -> list[Any]:
    """What happened, in order."""
    seen: list[Any] = []

    async def run() -> None:
        with ThreadPoolExecutor(1) as executor:
            work = ThreadWork(
                asyncio.get_running_loop(),
                executor,
                after=lambda: seen.append("after"),
                on_broken=lambda bug: seen.append(("broken", str(bug))),
            )
            await scene(work, seen)

    asyncio.run(run())
    return seen


def test_work_begins_after_the_callback_and_done_runs_on_the_loop() -> None:
    async def scene(work: ThreadWork, seen: list[Any]) -> None:
        loop_thread = threading.get_ident()

        def act() -> None:
            seen.append(("work", threading.get_ident() == loop_thread))

        def done(error: OSError | None) -> None:
            seen.append(("done", error, threading.get_ident() == loop_thread))

        work(act, done)
        seen.append("asked")
        await work.finish()

    assert play(scene) == ["asked", ("work", False), ("done", None, True), "after"]


def test_os_error_of_work_is_passed_to_done() -> None:
    failure = OSError(5, "failed")

    async def scene(work: ThreadWork, seen: list[Any]) -> None:
        def act() -> None:
            raise failure

        work(act, seen.append)
        await work.finish()

    assert play(scene) == [failure, "after"]


def test_finish_waits_for_work_that_done_begins() -> None:
    async def scene(work: ThreadWork, seen: list[Any]) -> None:
        def again(_: OSError | None) -> None:
            work(lambda: seen.append("second"), lambda _: None)

        work(lambda: seen.append("first"), again)
        await work.finish()
        seen.append("finished")

    assert play(scene) == ["first", "after", "second", "after", "finished"]


def test_other_exception_of_work_or_done_is_passed_to_on_broken() -> None:
    async def scene(work: ThreadWork, seen: list[Any]) -> None:
        def broken(*_: object) -> None:
            raise ValueError("why")

        work(broken, lambda _: seen.append("never"))
        work(lambda: None, broken)
        await work.finish()

    assert play(scene) == [("broken", "why"), ("broken", "why")]
