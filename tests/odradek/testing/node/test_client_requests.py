"""The counts of clients' requests have a bound, whatever clients send."""

from __future__ import annotations

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import RequestHeader
from odradek.testing.node import client_requests
from odradek.testing.node.client_requests import OTHERS, UNKNOWN, ClientRequests, RequestKind

ROWS_MAX = 20


class Connection:
    """What requests come from."""


def test_kinds_beyond_the_bound_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_requests, "ROWS_MAX", ROWS_MAX)
    requests = ClientRequests()
    connection = Connection()

    def send(api_key: int, version: int, client_id: str) -> None:
        header = RequestHeader(
            api_key=api_key, version=version, correlation_id=1, client_id=client_id
        )
        requests.add(connection, header, memoryview(b""))

    for number in range(3 * ROWS_MAX):
        send(ApiKey.PRODUCE, 9, f"client-{number}")
    counts = requests.counts()
    assert counts[RequestKind(UNKNOWN, ApiKey.PRODUCE, 9)] == 2 * ROWS_MAX
    assert len(counts) == ROWS_MAX + 1
    for number in range(10 * ROWS_MAX):
        send(1000 + number, number, f"client-{number}")
    send(ApiKey.PRODUCE, 9, "client-0")
    counts = requests.counts()
    assert len(counts) == 2 * ROWS_MAX + 1
    assert counts[OTHERS] == 10 * ROWS_MAX - (ROWS_MAX - 1)
    assert counts.total() == 13 * ROWS_MAX + 1
