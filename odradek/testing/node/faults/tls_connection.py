"""A connection over TLS that can end its responses as a fault says."""

from __future__ import annotations

from odradek.broker.server.tls_connection import TlsConnection
from odradek.testing.node.faults.connection import FaultyConnection


class FaultyTlsConnection(FaultyConnection, TlsConnection):
    """A connection of a client of a broker for tests."""
