"""Whether every broker of a cluster knows all the others and the controller.

A broker serves clients before the controller's first UpdateMetadata has arrived; a client that
connected then would wait for its next refresh of metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.tools.client import Client, ClientError

if TYPE_CHECKING:
    from odradek.tools.security.client_security import ClientSecurity

TIMEOUT_MS: Final = 2_000


def brokers_know_each_other(
    addresses: Sequence[str], security: ClientSecurity | None = None
) -> bool:
    """Ask each broker; an address that does not respond counts as one that does not know."""
    return all(_knows_all(address, len(addresses), security) for address in addresses)


def _knows_all(address: str, count: int, security: ClientSecurity | None) -> bool:
    try:
        client = Client(address, timeout_ms=TIMEOUT_MS, security=security)
        try:
            response = client.any_broker(MetadataRequest(topics=[]), MetadataResponse)
        finally:
            client.close()
    except ClientError:
        return False
    return len(response.brokers) == count and response.controller_id >= 0
