"""A replica that has copied a compacted log is killed: its gaps look like those of a power cut.

The copy has no cleaner's checkpoint, and no controller has seen the brokers die, so the replica is
in sync when it follows again.  What it then drops is lost, should it lead next.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from time import monotonic
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.support.broker_cluster import BrokerCluster

TOPIC: Final = "table"
RECORDS: Final = 12_000
VALUE_BYTES: Final = 500
RUN: Final = 50
"""Records in turn with keys of their own, and with a few keys: batches of the latter go whole."""
HOT_KEYS: Final = 5
READ_S: Final = 60.0
SETTINGS: Final = {
    "log.cleaner.backoff.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "600000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
}
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": "65536",
    "follower.replication.throttled.replicas": "*",
}


LEADER, CONTROLLER, COPY = 1, 2, 3
OF_CONTROLLER: Final = {"zookeeper.session.timeout.ms": "36000"}
"""When its session ends, the others have registered again: no controller sees that they died."""


@pytest.fixture
def compacting(ensemble: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers that compact at once, and check a whole log after a kill."""
    folder = tmp_path_factory.mktemp("compacting")
    cluster = BrokerCluster(
        folder,
        zookeeper_connect=f"{ensemble}/{folder.name}",
        overrides=SETTINGS,
        of_broker={CONTROLLER: OF_CONTROLLER},
    )
    try:
        cluster.start(CONTROLLER)
        cluster.start_all()
        cluster.wait_for_brokers()
        yield cluster
    finally:
        cluster.close()


class Table:
    """What was acknowledged: the latest value of each key."""

    def __init__(self) -> None:
        self.acknowledged: dict[bytes, bytes] = {}
        self._count = 0

    def write(self, bootstrap: str, count: int) -> None:
        """Write records, and wait until each is acknowledged."""
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 20,
                "batch.num.messages": RUN,
            }
        )
        errors: list[object] = []
        for number in range(self._count, self._count + count):
            is_hot = number // RUN % 2
            key = b"hot-%d" % (number % HOT_KEYS) if is_hot else b"own-%d" % number
            value = (b"%d " % number).ljust(VALUE_BYTES, b"v")
            producer.produce(
                TOPIC,
                value,
                key,
                on_delivery=lambda error, _: None if error is None else errors.append(error),
            )
            self.acknowledged[key] = value
            if number % RUN == RUN - 1:
                producer.poll(0)
        assert producer.flush(READ_S) == 0
        assert not errors
        self._count += count

    def missing(self, bootstrap: str) -> list[bytes]:
        """The keys whose latest value cannot be read."""
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
        stored: dict[bytes | None, bytes | None] = {}
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=READ_S)
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            deadline = monotonic() + READ_S
            while consumer.position([TopicPartition(TOPIC, 0)])[0].offset < end:
                assert monotonic() < deadline, "the end is reached"
                message = consumer.poll(1.0)
                if message is not None and message.error() is None:
                    stored[message.key()] = message.value()
        finally:
            consumer.close()
        return [key for key, value in self.acknowledged.items() if stored.get(key) != value]


def alter(bootstrap: str, kind: ResourceType, name: str, **configs: str) -> None:
    """Set configs of a resource."""
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in configs.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(READ_S)


@pytest.mark.slow
def test_replica_that_is_killed_after_it_copied_a_compacted_log_and_is_elected_has_all_records(
    compacting: BrokerCluster,
) -> None:
    cluster, table = compacting, Table()
    assert cluster.controller() == CONTROLLER
    cluster.create_topic(TOPIC, assignment={0: [LEADER, CONTROLLER, COPY]}, configs=COMPACTED)
    table.write(cluster.bootstrap, RECORDS)
    # A cleaning that begins sooner may be of so few records that it leaves no gap.
    for broker in cluster.brokers.values():
        broker.process.wait_for_line(
            rf"cleaned \S*{TOPIC}-0 from \d+ to \d{{4,}}:", timeout_s=READ_S
        )
    # From now on no cleaner says what it has cleaned, on the copy either.
    alter(cluster.bootstrap, ResourceType.TOPIC, TOPIC, cleanup_policy="delete")

    cluster.kill(COPY)
    for directory in cluster.brokers[COPY].log_directories:
        shutil.rmtree(directory)
    cluster.start(COPY)
    cluster.wait_until_complete(TOPIC)
    table.write(cluster.bootstrap, 2 * RUN)
    # What would be copied again takes long.
    alter(
        cluster.bootstrap, ResourceType.BROKER, str(COPY), follower_replication_throttled_rate="1"
    )

    for victim in (LEADER, COPY, CONTROLLER):
        cluster.kill(victim)
    cluster.start(LEADER)
    cluster.start(COPY)
    cluster.brokers[COPY].process.wait_for_line(
        rf"{TOPIC}-0.*(truncated to offset|has nothing in the gaps)", timeout_s=READ_S
    )
    assert COPY in cluster.partitions(TOPIC, of=LEADER)[0].isr_nodes
    cluster.kill(LEADER)
    cluster.wait_for_leaders(TOPIC, {0: COPY}, isr=1, of=COPY)
    cluster.start(LEADER)
    cluster.start(CONTROLLER)
    alter(
        cluster.bootstrap,
        ResourceType.BROKER,
        str(COPY),
        follower_replication_throttled_rate=str(10**9),
    )
    cluster.wait_until_complete(TOPIC)
    assert table.missing(cluster.bootstrap) == []
    table.write(cluster.bootstrap, RUN)
    assert table.missing(cluster.bootstrap) == []
