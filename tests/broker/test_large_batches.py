"""Batches of 180 KB that wait to be validated, from four clients at once.

On a busy machine whole frames arrive in one receive, and the memory of a request that waits is what
the next receives of other connections would overwrite. `make chaos-cluster` has
three busy processes beside it.
"""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import odradek_broker
from tests.support.busy_processes import busy_processes
from tests.support.watermarks import watermarks

PRODUCERS: Final = 4
PARTITIONS: Final = 12
RECORDS: Final = 1_400
"""Of a producer, for each partition and round."""
WAIT_S: Final = 300.0
SETTINGS: Final = {
    "enable.idempotence": True,
    "batch.size": 180_000,
    "linger.ms": 50,
    "queue.buffering.max.messages": 1_000_000,
    "log_level": 0,
}


def value_of(producer: int, number: int) -> bytes:
    """100 bytes, each of which says whose they are."""
    return (b"%d:%d " % (producer, number) * 20)[:100]


def produce(
    address: str, topic: str, producer: int, rounds: int, failures: list[str]
) -> dict[int, list[int]]:
    """Send all rounds; partition -> numbers of its acknowledged records in order of offsets."""
    offsets: dict[int, list[tuple[int, int]]] = {}

    def on_delivery(number: int, error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None or partition is None or offset is None:
            failures.append(str(error))
        else:
            offsets.setdefault(partition, []).append((offset, number))

    client = Producer({"bootstrap.servers": address, **SETTINGS})
    number = 0
    for _ in range(rounds):
        for partition in range(PARTITIONS):
            for _ in range(RECORDS):
                number += 1
                client.produce(
                    topic,
                    value_of(producer, number),
                    b"%d-%d" % (producer, number),
                    partition=partition,
                    on_delivery=partial(on_delivery, number),
                )
        assert client.flush(WAIT_S) == 0
    return {
        partition: [number for _, number in sorted(sent)] for partition, sent in offsets.items()
    }


def read_all(address: str, topic: str, partition: int) -> list[bytes]:
    """The values of a partition, whose checksums are right."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "g", "check.crcs": True, "log_level": 0}
    )
    try:
        _, end = watermarks(consumer, topic, partition, timeout_s=WAIT_S)
        consumer.assign([TopicPartition(topic, partition, 0)])
        values: list[bytes] = []
        while len(values) < end:
            messages = consumer.consume(end - len(values), timeout=WAIT_S / 10)
            assert messages, f"{partition}: no record after {len(values)} of {end}"
            for message in messages:
                assert message.error() is None, message.error()
                values.append(message.value() or b"")
        return values
    finally:
        consumer.close()


@pytest.mark.client
@pytest.mark.parametrize(("rounds", "busy"), [(1, 0), pytest.param(8, 3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "configs",
    [
        {"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000"},
        {"compression.type": "gzip", "compression.gzip.level": "1"},
    ],
    ids=["compacted", "recompressed"],
)
def test_large_batches_that_wait_are_read_as_they_were_sent(
    tmp_path: Path, configs: dict[str, str], rounds: int, busy: int
) -> None:
    failures: list[str] = []
    sent: dict[int, dict[int, list[int]]] = {}
    with odradek_broker(tmp_path) as broker, busy_processes(busy):
        admin = AdminClient({"bootstrap.servers": broker.address})
        new = NewTopic("large", PARTITIONS, 1, config=configs)
        admin.create_topics([new])["large"].result(WAIT_S)

        def run(producer: int) -> None:
            sent[producer] = produce(broker.address, "large", producer, rounds, failures)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(PRODUCERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert failures == []
        assert len(sent) == PRODUCERS
        for partition in range(PARTITIONS):
            values = read_all(broker.address, "large", partition)
            for producer, numbers in sent.items():
                mine = [value for value in values if value.startswith(b"%d:" % producer)]
                assert mine == [value_of(producer, number) for number in numbers[partition]]
            assert len(values) == PRODUCERS * rounds * RECORDS
