"""Tasks whose failures are reported."""

from __future__ import annotations

import asyncio

from odradek.runtime.tasks import Supervisor


def test_task_that_fails_is_reported_and_forgotten() -> None:
    deaths: list[tuple[str, str]] = []

    async def fail() -> None:
        raise ValueError("why")

    async def run() -> None:
        died = asyncio.Event()

        def on_failure(name: str, error: BaseException) -> None:
            deaths.append((name, str(error)))
            died.set()

        supervisor = Supervisor(asyncio.get_running_loop(), on_failure)
        supervisor.start("worker", fail())
        assert len(supervisor) == 1
        await died.wait()
        assert len(supervisor) == 0

    asyncio.run(run())
    assert deaths == [("worker", "why")]


def test_close_cancels_running_tasks_and_reports_nothing() -> None:
    deaths: list[str] = []

    async def run() -> bool:
        supervisor = Supervisor(asyncio.get_running_loop(), lambda name, error: deaths.append(name))
        supervisor.start("waiter", asyncio.Event().wait())
        await supervisor.close()
        return len(supervisor) == 0

    assert asyncio.run(run())
    assert deaths == []
