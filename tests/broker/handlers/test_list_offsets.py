"""ListOffsets where the high watermark is below the end of the log, as in a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.handlers import list_offsets
from odradek.broker.handlers.shared.handler import Context
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.support.handlers import outcome_of
from tests.support.logs import NOW_MS, batch
from tests.support.replicas import BROKER_ID, Replicas

MAX_TIMESTAMP, LAST_TIERED = -3, -5
NO_LOOKUPS: Any = None
"""Searches in threads, which these requests need none of."""
NOT_AVAILABLE = ErrorCode.OFFSET_NOT_AVAILABLE


def ask(replicas: Replicas, timestamp: int, *, replica_id: int = -1) -> tuple[int, ErrorCode]:
    """(offset, error)."""
    parts: dict[str, Any] = dict.fromkeys(Services._fields)
    parts |= {"partitions": replicas.partitions, "topics": SimpleNamespace()}
    context = Context(Services(**parts), 9, "test", NOW_MS, "PLAINTEXT", "localhost", 1)
    partition = ListOffsetsPartition(partition_index=0, timestamp_ms=timestamp, max_num_offsets=1)
    topic = ListOffsetsTopic(name="orders", partitions=[partition])
    request = ListOffsetsRequest(replica_id=replica_id, topics=[topic])
    reply = outcome_of(list_offsets.run(context, request, time_lookups=NO_LOOKUPS))
    result = reply.response.topics[0].partitions[0]
    return result.offset, ErrorCode(result.error_code)


@pytest.fixture
def lagging() -> Replicas:
    """Five records that are replicated, the newest of the first epoch and of the second are not."""
    replicas = Replicas()
    for each in range(5):
        replicas.lead().append([batch(NOW_MS + each)], NOW_MS)
    replicas.lead(in_sync=(BROKER_ID, 2)).append([batch(NOW_MS + 10)], NOW_MS)
    return replicas


def test_largest_timestamp_is_one_that_the_reader_may_fetch(lagging: Replicas) -> None:
    assert ask(lagging, MAX_TIMESTAMP) == (-1, ErrorCode.NONE)
    assert ask(lagging, MAX_TIMESTAMP, replica_id=2) == (5, ErrorCode.NONE)
    partition = lagging.partitions.held("orders", 0)
    partition.log.advance_high_watermark(6)
    assert ask(lagging, MAX_TIMESTAMP) == (5, ErrorCode.NONE)


def test_offset_above_the_high_watermark_of_a_new_leader_is_not_available(
    lagging: Replicas,
) -> None:
    lagging.lead(in_sync=(BROKER_ID, 2))
    for timestamp in (LATEST_TIMESTAMP, MAX_TIMESTAMP, NOW_MS + 10):
        assert ask(lagging, timestamp) == (-1, NOT_AVAILABLE)
    assert ask(lagging, EARLIEST_TIMESTAMP) == (0, ErrorCode.NONE)
    assert ask(lagging, NOW_MS + 4) == (4, ErrorCode.NONE)
    assert ask(lagging, LAST_TIERED) == (-1, ErrorCode.NONE)
    assert ask(lagging, LATEST_TIMESTAMP, replica_id=2) == (6, ErrorCode.NONE)
    assert ask(lagging, NOW_MS + 11, replica_id=2) == (-1, ErrorCode.NONE)


def test_follower_serves_its_log_end_offset_to_a_debugging_consumer_only(lagging: Replicas) -> None:
    lagging.follow()
    not_leader = (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert ask(lagging, LATEST_TIMESTAMP, replica_id=-2) == (6, ErrorCode.NONE)
    assert ask(lagging, LATEST_TIMESTAMP) == not_leader
    assert ask(lagging, LATEST_TIMESTAMP, replica_id=2) == not_leader
