"""A follower's fetch of so many partitions that it is served in steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.broker.handlers import fetch
from tests.support.scripted_follower import Replicated, only_partition, our_leader, size

LONG_MS = 60_000


def test_fetch_in_steps_is_recorded_and_waits_for_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "PARTITIONS_AT_ONCE", 0)
    with our_leader(tmp_path, {}) as leading:
        topic = Replicated(leading, "t")
        producer = topic.wire()
        request = topic.fetch_request(0, wait_ms=LONG_MS)
        request.session_epoch = 0
        topic.follower.send(request, 17)
        topic.produce(producer)
        first = topic.follower.receive(1, 17)
        assert size(only_partition(first)) > 0
        request = topic.fetch_request(1, wait_ms=LONG_MS)
        request.session_id, request.session_epoch = first.session_id, 1
        topic.follower.send(request, 17)
        assert topic.produced(producer) == (0, 0)
        topic.produce(producer, acks=1)
        second = only_partition(topic.follower.receive(1, 17))
        assert size(second) > 0
        assert second.high_watermark == 1
        request.topics, request.session_epoch, request.max_wait_ms = [], 2, 1
        third = topic.follower.call(request, 17)
        assert size(only_partition(third)) > 0, "the follower still has to fetch it"
        topic.close()
