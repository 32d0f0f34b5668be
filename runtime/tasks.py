"""Tasks whose failures are logged and reported."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

logger = logging.getLogger("odradek.tasks")


class Supervisor:
    """Owns the tasks of a node.

    on_failure  called with the name and the exception of each task that has failed
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_failure: Callable[[str, BaseException], None]
    ) -> None:
        self._loop = loop
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[Any], str] = {}

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine as a task."""
        task = self._loop.create_task(work, name=name)
        self._tasks[task] = name
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        name = self._tasks.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            logger.error("task %s died", name, exc_info=error)
            self._on_failure(name, error)

    def __len__(self) -> int:
        return len(self._tasks)

    async def close(self) -> None:
        """Cancel what still runs and wait until it has ended."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
