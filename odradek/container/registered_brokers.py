"""Waiting until brokers have registered, for what must not begin before."""

from __future__ import annotations

import time
from typing import Final

from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.tools.client import Client, ClientError

PAUSE_S: Final = 0.2


def wait_for_brokers(bootstrap: str, count: int, timeout_s: float) -> str | None:
    """Wait until a cluster has as many brokers; returns None, or why it has not in time."""
    end_s = time.monotonic() + timeout_s
    while True:
        try:
            with Client(bootstrap) as client:
                request = MetadataRequest(topics=[])
                response = client.any_broker(request, MetadataResponse)
            reason = f"{len(response.brokers)} of {count} brokers have registered"
            if len(response.brokers) >= count:
                return None
        except ClientError as error:
            reason = str(error)
        if time.monotonic() >= end_s:
            return reason
        time.sleep(PAUSE_S)
