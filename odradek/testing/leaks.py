"""Connections, groups and transactions that a test has left open in a broker."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from odradek.testing.control import ControlFailed
from odradek.testing.handle import ConnectedClient, KafkaHandle
from odradek.testing.waiting import NotReached, wait_for

CLOSING_TIMEOUT_S: Final = 2.0
"""Some clients return from close before the broker has handled their last request, or the end of
their connections."""


class LeakCheck:
    """Open connections, groups and transactions that the brokers did not have before a test."""

    def __init__(
        self,
        kafka: KafkaHandle,
        *,
        known_leaks: set[str],
        is_new: bool,
        kept_clients: Sequence[str],
    ) -> None:
        """Before the test.

        known_leaks   transactions and groups that earlier tests have left, which are left out;
                      what is found is added
        is_new        whether the brokers have no client yet
        kept_clients  patterns of the client ids whose connections may stay
        """
        self._kafka = kafka
        self._known_leaks = known_leaks
        self._kept_clients = kept_clients
        self._connections: Counter[ConnectedClient] = Counter()
        if not is_new:
            self._connections = self._open_connections()

    def find(self, *, with_connections: bool) -> list[str]:
        """A phrase for each transaction that is open, each group that has members and each client
        with more connections than before the test; none for a broker that is away.

        with_connections  whether connections are looked at: the traceback of a failed test keeps
                          its clients
        raises            KafkaError
        """
        from odradek.tools.client import ClientError

        def current_leaks() -> list[str]:
            leaks = [
                f"the transaction of {transaction} open"
                for transaction in self._kafka.open_transactions()
            ]
            leaks += [f"members in group {group}" for group in self._kafka.active_groups()]
            leaks = [leak for leak in leaks if leak not in self._known_leaks]
            return leaks + self._grown() if with_connections else leaks

        try:
            if not current_leaks():
                return []
            # Clients that close when they are freed may be in cycles.
            gc.collect()
            try:
                wait_for(lambda: not current_leaks(), timeout_s=CLOSING_TIMEOUT_S)
                return []
            except NotReached:
                leaks = current_leaks()
                self._known_leaks.update(leaks)
                return leaks
        except ClientError:
            return []

    def _open_connections(self) -> Counter[ConnectedClient]:
        try:
            connections = self._kafka.connections()
        except ControlFailed:
            return Counter()
        for client in list(connections):
            if any(fnmatchcase(client.client_id, pattern) for pattern in self._kept_clients):
                del connections[client]
        return connections

    def _grown(self) -> list[str]:
        leaks = []
        grown = self._open_connections() - self._connections
        for client, count in sorted(grown.items()):
            connections = "a connection" if count == 1 else f"{count} connections"
            software = f"{client.software_name} {client.software_version}".strip()
            name = f"{client.client_id or 'a client without id'}{software and f' ({software})'}"
            leaks.append(f"{connections} of {name} open")
        return leaks
