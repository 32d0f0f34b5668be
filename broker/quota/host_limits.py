"""Limits of hosts, by address or by name.

Pure.  A name has the limit from when it was looked up.
Source: Kafka's ConnectionQuotas, which looks a name up when its limit is set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

IPV4: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}", re.ASCII)
LookUp = Callable[[str, Callable[[str], None]], None]
"""Looks up a name, and calls its second argument with the address, later or never."""


class HostLimits:
    """A number for each host."""

    __slots__ = ("_limits", "_look_up", "_names")

    def __init__(self, look_up: LookUp) -> None:
        self._look_up = look_up
        self._limits: dict[str, int] = {}
        self._names: dict[str, str] = {}
        """Address -> the name that has it."""

    def __len__(self) -> int:
        return len(self._limits)

    def get(self, address: str) -> int | None:
        """The limit of a client's address; None: it has none of its own.

        address  as `bound_listener.client_host` shows it
        """
        limit = self._limits.get(address)
        if limit is None and address in self._names:
            return self._limits.get(self._names[address])
        return limit

    def set(self, host: str, limit: int | None) -> None:
        """A host has a limit; None: has it no more."""
        if limit is None:
            self._limits.pop(host, None)
            for address in [address for address, name in self._names.items() if name == host]:
                del self._names[address]
            return
        self._limits[host] = limit
        if not is_address(host):
            self._look_up(host, partial(self._on_address, host))

    def replace(self, limits: Mapping[str, int]) -> None:
        """No other host has a limit any more."""
        self._limits.clear()
        self._names.clear()
        for host, limit in limits.items():
            self.set(host, limit)

    def _on_address(self, name: str, address: str) -> None:
        if name in self._limits:
            self._names[address] = name


def is_address(host: str) -> bool:
    """Whether a host is written as an address, not as a name."""
    return ":" in host or IPV4.fullmatch(host) is not None
