"""A cluster that the console shows: a few blocking clients, which threads borrow, and what was read
a moment ago.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from odradek.tools.client import BrokerUnreachable, Client, ClientError
from odradek.tools.client_config import new_client
from odradek.tools.errors import ToolError

CLIENT_ID: Final = "odradek-console"
TIMEOUT_MS: Final = 5_000
"""The time-out of each response, and of a new connection."""
CLIENTS_MAX: Final = 10
IDLE_CLIENTS_MAX: Final = 3
WAIT_S: Final = 10.0
"""For a client that others use."""
ERROR_AGE_S: Final = 1.0
"""How long an error is reported again before the cluster is asked again."""

T = TypeVar("T")


class ShownCluster:
    """A cluster by its bootstrap addresses.  Its methods block, and may be called in any thread."""

    def __init__(self, name: str, bootstrap: str, configs: Mapping[str, str]) -> None:
        """
        configs  Kafka's client properties
        raises   ClientError for an invalid address or property; nothing is connected yet
        """
        self.name = name
        self.bootstrap = bootstrap
        self.configs = {"client.id": CLIENT_ID, **configs}
        self._slots = threading.BoundedSemaphore(CLIENTS_MAX)
        self._lock = threading.Lock()
        self._idle: list[Client] = []
        self._memory: dict[str, _Remembered] = {}
        self._new_client().close()

    def call(self, ask: Callable[[Client], T]) -> T:
        """Ask the cluster; a second time when a connection that was idle turns out to be closed.

        raises  ToolError
        """
        with self._borrowed(is_new=False) as (client, is_used):
            try:
                return ask(client)
            except BrokerUnreachable:
                if not is_used:
                    raise
        with self._borrowed(is_new=True) as (client, _):
            return ask(client)

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client for several requests, on new connections.

        raises  ClientError when too many are in use
        """
        with self._borrowed(is_new=True) as (client, _):
            yield client

    def remembered(self, what: str, age_s: float, ask: Callable[[Client], T]) -> T:
        """What `ask` returned up to `age_s` ago, to any caller; else it is asked again.

        what    names what is asked for; there are a few
        raises  ToolError, also those of up to ERROR_AGE_S ago
        """
        with self._lock:
            entry = self._memory.setdefault(what, _Remembered())
        return entry.get(age_s, lambda: self.call(ask))

    def forget(self) -> None:
        """Read everything again, because something was changed."""
        with self._lock:
            self._memory.clear()

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()

    @contextmanager
    def _borrowed(self, *, is_new: bool) -> Iterator[tuple[Client, bool]]:
        """A client, and whether it was used before; it is kept unless its connection failed."""
        if not self._slots.acquire(timeout=WAIT_S):
            raise ClientError("the console has too many requests to this cluster under way")
        try:
            with self._lock:
                idle = None if is_new or not self._idle else self._idle.pop()
            client = idle or self._new_client()
            try:
                yield client, idle is not None
            except BaseException as error:
                if isinstance(error, ToolError) and not isinstance(error, ClientError):
                    self._keep(client)
                else:
                    client.close()
                raise
            self._keep(client)
        finally:
            self._slots.release()

    def _keep(self, client: Client) -> None:
        with self._lock:
            if len(self._idle) < IDLE_CLIENTS_MAX:
                self._idle.append(client)
                return
        client.close()

    def _new_client(self) -> Client:
        client = new_client(self.bootstrap, self.configs)
        client.set_timeout(TIMEOUT_MS)
        return client


class _Remembered:
    """The last result of a request, or its last error.  One thread asks, the others wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked_at_s = 0.0
        self._value: Any = None
        self._error: Exception | None = None
        self._is_set = False

    def get(self, age_s: float, ask: Callable[[], T]) -> T:
        with self._lock:
            age = time.monotonic() - self._asked_at_s
            if self._is_set and age < (age_s if self._error is None else ERROR_AGE_S):
                if self._error is not None:
                    raise self._error
                value: T = self._value
                return value
            self._value = self._error = None
            try:
                value = ask()
                self._value = value
                return value
            except ToolError as error:
                self._error = error
                raise
            finally:
                self._asked_at_s = time.monotonic()
                self._is_set = True
