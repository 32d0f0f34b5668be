"""Routes about faults: of requests, of links, of the disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from odradek.testing.node.control.node import ControlledNode
from odradek.testing.node.control.routes import Arguments, Routes, bad_request, not_found, until
from odradek.testing.node.faults.faults import DISK_FIELDS, LINK_FIELDS
from odradek.testing.node.faults.rules import FIELDS, FaultRefused

WAIT_MAX_MS: Final = 100_000
WAIT_MS: Final = 30_000


class FaultRoutes:
    """What a test has go wrong."""

    def __init__(self, node: ControlledNode) -> None:
        self._node = node
        self._faults = node.faults

    def add_to(self, routes: Routes) -> None:
        routes.add("POST", "/faults", "add a fault of requests", self.add, takes=FIELDS)
        routes.add("GET", "/faults", "the faults, with their hits", self.list)
        routes.add("DELETE", "/faults", "remove all faults, heal links and disk", self.clear)
        routes.add("GET", "/faults/{id}", "one fault of requests", self.show)
        routes.add("DELETE", "/faults/{id}", "remove one fault of requests", self.remove)
        routes.add(
            "GET",
            "/faults/{id}/wait",
            "the fault once it has `hits`; fails after `timeout_ms`",
            self.wait,
            takes=("hits", "timeout_ms"),
        )
        routes.add("POST", "/link", "cut, slow or heal a link", self.set_link, takes=LINK_FIELDS)
        routes.add(
            "POST", "/disk", "make the disk full, slow or failing", self.set_disk, takes=DISK_FIELDS
        )

    def add(self, arguments: Arguments) -> object:
        try:
            return self._faults.add(_given(arguments, FIELDS))
        except FaultRefused as refusal:
            raise bad_request(str(refusal)) from refusal

    def list(self, arguments: Arguments) -> object:
        return self._faults.listing()

    def clear(self, arguments: Arguments) -> object:
        self._faults.clear()
        return {}

    def show(self, arguments: Arguments) -> object:
        return self._row(arguments.integer("id"))

    def _row(self, number: int) -> dict[str, Any]:
        row = self._faults.row(number)
        if row is None:
            raise not_found(f"there is no fault {number}")
        return row

    def remove(self, arguments: Arguments) -> object:
        """The fault as it was at its end."""
        row = self._row(arguments.integer("id"))
        self._faults.remove(row["id"])
        return row

    async def wait(self, arguments: Arguments) -> object:
        """The fault once it was hit often enough."""
        number, hits = arguments.integer("id"), arguments.integer("hits", 1)
        timeout_ms = arguments.integer("timeout_ms", WAIT_MS, most=WAIT_MAX_MS)
        await until(
            lambda: self._row(number)["hits"] >= hits,
            f"{hits} hits of fault {self._row(number)}",
            timeout_ms / 1_000,
        )
        return self._row(number)

    def set_link(self, arguments: Arguments) -> object:
        try:
            self._faults.set_link(_given(arguments, LINK_FIELDS))
        except FaultRefused as refusal:
            raise bad_request(str(refusal)) from refusal
        return {}

    def set_disk(self, arguments: Arguments) -> object:
        data = self._node.services.settings.log_dirs[0]
        try:
            self._faults.set_disk(_given(arguments, DISK_FIELDS), data)
        except FaultRefused as refusal:
            raise bad_request(str(refusal)) from refusal
        return {}


def _given(arguments: Arguments, names: tuple[str, ...]) -> Mapping[str, Any]:
    values = {name: arguments.value(name, None) for name in names}
    return {name: value for name, value in values.items() if value is not None}
