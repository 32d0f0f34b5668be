"""Threads for what requests cannot do on the loop."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from odradek.runtime.work import ThreadCall

T = TypeVar("T")

REQUEST_THREADS: Final = 2
"""Each may decompress one batch at a time, of up to 64 MiB."""


class RequestThreads:
    """A pool of its own: requests must not keep disk jobs waiting."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._executor = ThreadPoolExecutor(REQUEST_THREADS, thread_name_prefix="request")

    def begin(self, call: ThreadCall[T]) -> None:
        """Run the function of `call` off the loop, and complete the call on it."""

        def on_worked(future: Future[T]) -> None:
            if future.cancelled():
                call.fail(RuntimeError("the broker stops"))
                return
            error = future.exception()
            if error is None:
                call.resolve(future.result())
            elif isinstance(error, Exception):
                call.fail(error)
            else:
                raise error

        self._loop.run_in_executor(self._executor, call.function).add_done_callback(on_worked)

    def close(self) -> None:
        """End the threads; what they do now is not awaited."""
        self._executor.shutdown(wait=False, cancel_futures=True)
