"""A result that may come later, and a way to wait for it that needs no event loop.

A call that may have to wait returns a `Pending`: done already, or completed later on the thread of
its owner.  A coroutine (`async def`, advanced by `runtime/work.py`) can await it; awaiting a done
pending never suspends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Pending(Generic[T]):
    """A value or an error, now or later; completed exactly once."""

    __slots__ = ("_callbacks", "_error", "_value", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._value: T | None = None
        self._error: Exception | None = None
        self._callbacks: list[Callable[[Pending[T]], None]] = []

    @classmethod
    def of(cls, value: T) -> Pending[T]:
        pending = cls()
        pending.is_done = True
        pending._value = value
        return pending

    @classmethod
    def failed(cls, error: Exception) -> Pending[T]:
        pending = cls()
        pending.is_done = True
        pending._error = error
        return pending

    def resolve(self, value: T) -> None:
        """Complete with a value; the callbacks run inside this call."""
        assert not self.is_done, "a pending is completed once"
        self._value = value
        self._complete()

    def fail(self, error: Exception) -> None:
        """Complete with an error; the callbacks run inside this call."""
        assert not self.is_done, "a pending is completed once"
        self._error = error
        self._complete()

    def settle_as(self, other: Pending[T]) -> None:
        """Complete with the outcome of a done pending; the callbacks run inside this call."""
        assert other.is_done, "only a done pending has an outcome"
        assert not self.is_done, "a pending is completed once"
        self._value, self._error = other._value, other._error
        self._complete()

    def _complete(self) -> None:
        self.is_done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def on_done(self, callback: Callable[[Pending[T]], None]) -> None:
        """Call `callback` once when done; at once when it is done already."""
        if self.is_done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def then(self, convert: Callable[[T], U]) -> Pending[U]:
        """A pending of `convert(value)`; it fails when this one does, or `convert` raises."""
        converted: Pending[U] = Pending()

        def complete(done: Pending[T]) -> None:
            try:
                value = convert(done.result())
            except Exception as error:  # noqa: BLE001 - `result` raises it
                converted.fail(error)
            else:
                converted.resolve(value)

        self.on_done(complete)
        return converted

    def result(self) -> T:
        """The value.

        raises  what it failed with (a coordination session: CoordinationError)
        """
        assert self.is_done, "the result is read before it is there"
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def __await__(self) -> Generator[Pending[Any], None, T]:
        if not self.is_done:
            yield self
        return self.result()


def settled(pendings: Sequence[Pending[T]]) -> Pending[Sequence[Pending[T]]]:
    """Done when all pendings are done or failed: a way to send many requests and then wait."""
    left = sum(1 for pending in pendings if not pending.is_done)
    if not left:
        return Pending.of(pendings)
    everything: Pending[Sequence[Pending[T]]] = Pending()

    def count(_: Pending[T]) -> None:
        nonlocal left
        left -= 1
        if not left:
            everything.resolve(pendings)

    for pending in pendings:
        if not pending.is_done:
            pending.on_done(count)
    return everything
