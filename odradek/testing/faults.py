"""Faults that a test asks of its brokers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

from odradek.testing.control import ControlClient, ControlFailed
from odradek.testing.waiting import TIMEOUT_S, wait_for


class Fault:
    """A fault of requests, until it is removed: as a context manager, at the end of the block."""

    def __init__(self, added: Sequence[tuple[ControlClient, Mapping[str, Any]]]) -> None:
        """added  (broker, its row of the fault)"""
        self._added = list(added)
        self._rows = {number: row for number, (_, row) in enumerate(added)}
        self._is_removed = False

    @property
    def hits(self) -> int:
        """How many requests it was applied to, on all brokers.

        raises  ControlFailed
        """
        if not self._is_removed:
            for number, (control, row) in enumerate(self._added):
                self._rows[number] = control.get(f"/faults/{row['id']}")
        return sum(int(row["hits"]) for row in self._rows.values())

    def wait(self, hits: int = 1, *, timeout_s: float = TIMEOUT_S) -> int:
        """Wait until it was applied to `hits` requests; returns to how many it was.

        raises  NotReached; ControlFailed
        """
        row = self._added[0][1]
        shown = ", ".join(f"{name}={value!r}" for name, value in row.items() if name != "hits")
        wait_for(
            lambda: self.hits >= hits, f"{hits} hits of the fault {shown}", timeout_s=timeout_s
        )
        return self.hits

    def remove(self) -> None:
        """Remove it; `hits` stays.

        A broker that is away, or has removed it already, has none.
        """
        if self._is_removed:
            return
        for number, (control, row) in enumerate(self._added):
            try:
                self._rows[number] = control.call("DELETE", f"/faults/{row['id']}")
            except ControlFailed as failure:
                if failure.status not in (None, 404):
                    raise
        self._is_removed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.remove()


class FaultTarget(ABC):
    """One broker or several, on which faults can be set."""

    _has_faults = False

    @property
    @abstractmethod
    def controls(self) -> Sequence[ControlClient]:
        """The control channels of the running brokers, by id."""

    def control_of(self, broker: int) -> ControlClient:
        """The control channel of one broker."""
        return self.controls[broker]

    def fault(  # noqa: PLR0913 - as many as a request and its fault have
        self,
        api: str | int | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        client_id: str | None = None,
        broker: int | None = None,
        error: str | int | None = None,
        delay_ms: int | None = None,
        drop: bool | None = None,
        close: bool | None = None,
        half_written: bool | None = None,
        corrupt: bool | None = None,
        throttle_ms: int | None = None,
        executed: bool | None = None,
        times: int | None = None,
        skip: int | None = None,
    ) -> Fault:
        """Have requests go wrong, from now on; each broker counts its own.

        api           such as "Produce", or its number; None: every API that clients use
        broker        the index of one broker of a cluster
        error         such as "NOT_LEADER_OR_FOLLOWER", or its number
        delay_ms      also together with another action
        drop          there is no response
        close         the connection is closed
        half_written  the connection is closed within the response
        corrupt       the checksums of fetched batches are wrong
        throttle_ms   throttle_time_ms of the response; the connection is not read meanwhile
        executed      the request is carried out before what happens to its response
        times         for so many requests; None: until it is removed
        skip          so many pass before the first
        raises        ControlFailed, when the fault cannot be
        """
        values = {
            "api": api,
            "topic": topic,
            "partition": partition,
            "group": group,
            "transactional_id": transactional_id,
            "client_id": client_id,
            "error": error,
            "delay_ms": delay_ms,
            "drop": drop,
            "close": close,
            "half_written": half_written,
            "corrupt": corrupt,
            "throttle_ms": throttle_ms,
            "executed": executed,
            "times": times,
            "skip": skip,
        }
        fields = {name: value for name, value in values.items() if value is not None}
        self._has_faults = True
        chosen = self.controls if broker is None else [self.control_of(broker)]
        return Fault([(control, control.call("POST", "/faults", fields)) for control in chosen])

    def note_fault(self) -> None:
        """Something is wrong until `heal`."""
        self._has_faults = True

    def heal(self) -> None:
        """Remove all faults of requests, links and disks; a broker that is away has none."""
        if not self._has_faults:
            return
        for control in self.controls:
            try:
                control.call("DELETE", "/faults")
            except ControlFailed as failure:
                if failure.status is not None:
                    raise
        self._has_faults = False


class Disk:
    """The disk of one broker, until `heal` as any other; one fault takes the place of another."""

    def __init__(self, broker: FaultTarget) -> None:
        self._broker = broker

    def full(self, path: str = "") -> None:
        """Nothing can be written.

        path    a folder in the log directory, such as "orders-0"; "" is all of it
        raises  ControlFailed
        """
        self._set(path=path, full=True)

    def slow(self, *, ms: int, path: str = "") -> None:
        """Each read, write and sync takes so much longer; the broker waits for it.

        raises  ControlFailed
        """
        self._set(path=path, slow_ms=ms)

    def fail_fsync(self, path: str = "") -> None:
        """No sync succeeds: the log directory goes offline at its next one.

        raises  ControlFailed
        """
        self._set(path=path, fail_fsync=True)

    def heal(self) -> None:
        """It works again.

        raises  ControlFailed
        """
        self._set()

    def _set(self, **fields: Any) -> None:
        self._broker.note_fault()
        (control,) = self._broker.controls
        control.call("POST", "/disk", fields)
