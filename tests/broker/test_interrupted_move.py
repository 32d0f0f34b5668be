"""A move between log directories that a kill ends and whose copy a power cut has damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ResourceType

from odradek.protocol.errors import ErrorCode
from tests.broker.handlers.test_alter_replica_log_dirs import RATE, move
from tests.cluster.acknowledged import read_all
from tests.support.broker_process import odradek_broker
from tests.support.compacted import WAIT_S, alter, create_topic, wait_until
from tests.support.wire import Wire

TOPIC: Final = "orders"
RECORDS: Final = 3_000
SEGMENT_BYTES: Final = 100_000
SLOW: Final = str(4 * SEGMENT_BYTES)
FAST: Final = str(1 << 40)
SEGMENTS_COPIED: Final = 5


def produce(address: str) -> None:
    """The numbers from 0, in batches that fit into a segment, all acknowledged."""
    errors: list[object] = []
    producer = Producer(
        {"bootstrap.servers": address, "enable.idempotence": True, "batch.num.messages": 40}
    )
    for number in range(RECORDS):
        producer.produce(
            TOPIC, b"%01000d" % number, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(WAIT_S) == 0
    assert errors == [None] * RECORDS


@pytest.mark.parametrize("lost", [0, 2])
def test_librdkafka_reads_all_after_a_move_whose_copy_lost_a_segment_in_a_power_cut(
    tmp_path: Path, lost: int
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    overrides = {"log.dirs": f"{tmp_path / 'data'},{other}"}
    with odradek_broker(tmp_path, overrides=overrides) as broker:
        create_topic(broker, TOPIC, {"segment.bytes": str(SEGMENT_BYTES)})
        produce(broker.address)
        (source,) = (
            directory for directory in broker.log_directories if (directory / f"{TOPIC}-0").exists()
        )
        (target,) = (directory for directory in broker.log_directories if directory != source)
        alter(broker, ResourceType.BROKER, "0", {RATE: SLOW})
        with Wire(broker.address) as wire:
            assert move(wire, target) == ErrorCode.NONE

        def copied() -> list[Path]:
            segments = sorted(target.glob(f"{TOPIC}-0.*-future/*.log"))
            return segments if len(segments) >= SEGMENTS_COPIED else []

        segments = wait_until("a part of the copy", copied)
        broker.kill()
        assert (source / f"{TOPIC}-0").exists()
        segments[lost].write_bytes(b"")
        broker.start()
        alter(broker, ResourceType.BROKER, "0", {RATE: FAST})
        wait_until("the end of the move", (target / f"{TOPIC}-0").exists)
        assert read_all(broker.address, TOPIC, 1) == {0: [*range(RECORDS)]}
        assert broker.stop() == 0
        broker.start()
        assert read_all(broker.address, TOPIC, 1) == {0: [*range(RECORDS)]}
