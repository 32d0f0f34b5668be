"""Indexes lost or damaged between a stop and a start: no commit is hidden, no abort shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from tests.cluster.acknowledged import read_all
from tests.support.broker_process import odradek_broker
from tests.support.compacted import WAIT_S, create_topic, files_of

TOPIC: Final = "orders"
TRANSACTIONS: Final = 24
RECORDS: Final = 15
SEGMENT_BYTES: Final = 12_000


def produce(address: str) -> list[int]:
    """Transactions that overlap, and a last record after them; the numbers that were committed."""
    committed: list[int] = []
    for first in range(0, TRANSACTIONS, 3):
        producers = []
        for number in range(first, first + 3):
            producer = Producer(
                {"bootstrap.servers": address, "transactional.id": f"writer-{number % 3}"}
            )
            producer.init_transactions(WAIT_S)
            producer.begin_transaction()
            producers.append(producer)
        numbers = range(first * RECORDS, (first + 3) * RECORDS)
        for number in numbers:
            producers[number % 3].produce(TOPIC, b"%0100d" % number)
        for index, producer in enumerate(producers):
            producer.flush(WAIT_S)
            if (first + index) % 4:
                producer.abort_transaction(WAIT_S)
            else:
                producer.commit_transaction(WAIT_S)
                committed += [number for number in numbers if number % 3 == index]
    producer = Producer({"bootstrap.servers": address})
    producer.produce(TOPIC, b"%d" % (TRANSACTIONS * RECORDS))
    assert producer.flush(WAIT_S) == 0
    return [*sorted(committed), TRANSACTIONS * RECORDS]


def read_sorted(address: str) -> list[int]:
    """What librdkafka reads with read_committed, its default."""
    return sorted(read_all(address, TOPIC, 1)[0])


def delete_all(folder: Path) -> None:
    for suffix in ("index", "timeindex", "txnindex"):
        for path in folder.glob(f"*.{suffix}"):
            path.unlink()


def spoil_all(folder: Path) -> None:
    for path in folder.glob("*.txnindex"):
        path.write_bytes(b"\xff" * 999)


@pytest.mark.parametrize("damage", [delete_all, spoil_all])
@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_librdkafka_reads_what_was_committed_after_indexes_were_lost(
    tmp_path: Path, is_killed: bool, damage: Callable[[Path], None]
) -> None:
    with odradek_broker(tmp_path) as broker:
        create_topic(broker, TOPIC, {"segment.bytes": str(SEGMENT_BYTES)})
        committed = produce(broker.address)
        assert read_sorted(broker.address) == committed
        assert len(files_of(broker, TOPIC, ".txnindex")) > 2
        if is_killed:
            # A clean stop before it: the segments are below the recovery point then.
            assert broker.stop() == 0
            broker.start()
            broker.kill()
        else:
            assert broker.stop() == 0
        damage(broker.data / f"{TOPIC}-0")
        broker.start()
        assert read_sorted(broker.address) == committed
