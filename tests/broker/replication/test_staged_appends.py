"""Which requests are attempted after an append."""

from __future__ import annotations

import pytest

from odradek.broker.purgatory import Delayed
from odradek.broker.replication.staged_appends import StagedAppends
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.metrics import BrokerMetrics
from tests.support.logs import NOW_MS, batch
from tests.support.replicas import BROKER_ID, Replicas


@pytest.mark.parametrize(
    ("replicas", "in_sync", "expected"),
    [
        ((BROKER_ID,), (BROKER_ID,), ["consumer"]),
        ((BROKER_ID, 2), (BROKER_ID,), ["follower", "consumer"]),
        ((BROKER_ID, 2), (BROKER_ID, 2), ["follower"]),
    ],
)
def test_append_attempts_followers_and_consumers_only_if_the_high_watermark_has_risen(
    replicas: tuple[int, ...], in_sync: tuple[int, ...], expected: list[str]
) -> None:
    broker = Replicas()
    partition = broker.lead(in_sync=in_sync, replicas=replicas)
    attempts: list[str] = []

    def park(key: object, name: str) -> None:
        def attempt() -> None:
            attempts.append(name)

        delayed = Delayed((key,), 60_000, attempt, lambda: "expired", is_tried=True)
        broker.purgatory.park(delayed, broker.clock.monotonic_ms(), lambda response: None)

    park(partition.log_end_key, "follower")
    park(partition, "consumer")
    appends = StagedAppends(broker.purgatory, BrokerMetrics())
    appends.stage(partition, batch(NOW_MS))
    appends.write(NOW_MS)
    broker.purgatory.run_notified()
    assert attempts == expected


@pytest.mark.parametrize("position", [21, 60, 61, -1])
def test_batch_that_has_changed_while_it_waited_closes_the_log_and_is_not_stored(
    caplog: pytest.LogCaptureFixture, position: int
) -> None:
    """The position of the byte: attributes, record count, first and last of the records."""
    partition = Replicas().lead(in_sync=(BROKER_ID,), replicas=(BROKER_ID,))
    waited = batch(NOW_MS)
    partition.check_unchanged(waited)
    waited.view[position] ^= 0x80
    with pytest.raises(BrokerError) as refused:
        partition.check_unchanged(waited)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [record.levelname for record in caplog.records] == ["CRITICAL"]
    assert partition.log.is_offline
    with pytest.raises(BrokerError):
        partition.leading()
