"""Fetch waits for no more bytes than it may return, here and at Apache's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.chapters.fetch import fetch_request
from tests.scripts.talk import Talk
from tests.support.apache import apache_node
from tests.support.broker_process import odradek_broker

LONG_WAIT_MS = 600_000
"""Longer than a test may last."""


@pytest.mark.parametrize("kind", ["odradek", pytest.param("apache", marks=pytest.mark.judge)])
def test_fetch_with_min_bytes_above_its_maximum_does_not_wait(kind: str, tmp_path: Path) -> None:
    with apache_node(tmp_path) if kind == "apache" else odradek_broker(tmp_path) as broker:
        talk = Talk(broker.address)
        topic_id = talk.make_topic("orders")
        stored = talk.quiet(produce_request("orders", batch(3)), 9).responses[0]
        assert stored.partition_responses[0].error_code == 0
        request = fetch_request(
            "orders", topic_id, 0, max_wait_ms=LONG_WAIT_MS, min_bytes=100_000, max_bytes=100
        )
        response = talk.quiet(request, 12)
        assert response.responses[0].partitions[0].records
        talk.close()
