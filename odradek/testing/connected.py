"""A broker that runs elsewhere, such as in a container, and goes on when a test has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

from odradek.testing.control import ControlClient, ControlFailed
from odradek.testing.faults import Disk
from odradek.testing.handle import KafkaHandle
from odradek.testing.waiting import wait_for

TIMEOUT_S: Final = 60.0


class ConnectedBroker(KafkaHandle):
    """A broker that the test has not started; also a context manager."""

    def __init__(self, bootstrap_servers: str, control: str, token: str | None = None) -> None:
        """`Broker.connect`."""
        super().__init__()
        self._bootstrap_servers = bootstrap_servers
        self._control = ControlClient(control, token)

    @property
    def bootstrap_servers(self) -> str:
        """host:port, as it was given."""
        return self._bootstrap_servers

    @property
    def control(self) -> ControlClient:
        """Its control channel."""
        return self._control

    @property
    def controls(self) -> Sequence[ControlClient]:
        """That of this broker."""
        return (self._control,)

    @property
    def disk(self) -> Disk:
        """Its disk, as far as it can fail."""
        return Disk(self)

    def wait_until_ready(self, timeout_s: float = TIMEOUT_S) -> Self:
        """Until the control channel responds, which it does once clients are served.

        raises  ControlFailed when it refuses: another token, or no broker for tests; NotReached
        """
        refusal: ControlFailed | None = None

        def is_ready() -> bool:
            nonlocal refusal
            try:
                self._control.get("/broker")
            except ControlFailed as failure:
                if failure.status is None:
                    raise
                refusal = failure
            return True

        wait_for(is_ready, f"{self._control.url} responds", timeout_s=timeout_s)
        if refusal is not None:
            raise refusal
        return self

    def log(self, position: int = 0) -> str:
        """Nothing: the log is where the broker runs."""
        return ""

    def log_bytes(self) -> int:
        """0, likewise."""
        return 0

    def close(self) -> None:
        """Remove the faults that were set, and close the connections; the broker goes on."""
        try:
            self.heal()
        finally:
            super().close()

    def __enter__(self) -> Self:
        return self.wait_until_ready()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.close()
