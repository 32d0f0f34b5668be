"""Internal topics that get more partitions: offsets and transactions of before stay found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import ascii_lowercase
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.cluster.acknowledged import read_all
from tests.support.broker_cluster import broker_cluster
from tests.support.broker_process import odradek_broker
from tests.support.compacted import wait_until

TOPIC: Final = "records"
INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
FORMER_COUNT: Final = 50
COUNT: Final = 70
# The hashes of these names are spread: most have another partition when all are counted.
GROUPS: Final = tuple(f"{letter}-group" for letter in ascii_lowercase)
WRITERS: Final = tuple(f"{letter}-writer" for letter in ascii_lowercase[:6])
WAIT_S: Final = 90.0
COORDINATOR_MOVES: Final = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
)
SETTINGS: Final = {
    "offsets.topic.num.partitions": str(FORMER_COUNT),
    "transaction.state.log.num.partitions": str(FORMER_COUNT),
}


class Clients:
    """Groups, a member that goes on reading, producers whose transactions stay open."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.written = 0
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        topic = NewTopic(TOPIC, 1, -1)
        self._admin.create_topics([topic])[TOPIC].result(WAIT_S)
        self._groups = {group: self._consumer(group) for group in GROUPS}
        for number, consumer in enumerate(self._groups.values()):
            place = TopicPartition(TOPIC, 0, 100 + number)
            consumer.commit(offsets=[place], asynchronous=False)
        self._member = self._consumer("member")
        self._member.subscribe([TOPIC])
        self._producers = [self._producer(writer) for writer in WRITERS]
        for producer in self._producers:
            producer.begin_transaction()
            self._produce(producer)

    def close(self) -> None:
        for consumer in (*self._groups.values(), self._member):
            consumer.close()

    def _consumer(self, group: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )

    def _producer(self, transactional_id: str) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": transactional_id,
                # A transaction is open while each broker restarts.
                "transaction.timeout.ms": 900_000,
            }
        )
        producer.init_transactions(WAIT_S)
        return producer

    def _produce(self, producer: Producer) -> None:
        producer.produce(TOPIC, b"%d" % self.written)
        assert producer.flush(WAIT_S) == 0
        self.written += 1

    def grow(self) -> None:
        """Give both internal topics more partitions."""
        for topic in INTERNAL:
            made = self._admin.create_partitions([NewPartitions(topic, COUNT)])
            made[topic].result(WAIT_S)

        def is_grown() -> bool:
            topics = self._admin.list_topics(timeout=WAIT_S).topics
            return all(
                len(topics[topic].partitions) == COUNT
                and all(partition.leader >= 0 for partition in topics[topic].partitions.values())
                for topic in INTERNAL
            )

        wait_until("more partitions", is_grown, timeout_s=WAIT_S)

    def check(self) -> None:
        """End the open transactions, begin others; all offsets are found, by new clients too."""
        for producer in self._producers:
            self._produce(producer)
            producer.commit_transaction(WAIT_S)
        plain = Producer({"bootstrap.servers": self._bootstrap})
        self._produce(plain)
        numbers = read_all(self._bootstrap, TOPIC, 1)[0]
        assert sorted(numbers) == [*range(self.written)]
        position = -1
        while position < numbers[-1]:
            (message, *_) = self._member.consume(1, WAIT_S)
            assert message.error() is None, message.error()
            value = message.value()
            assert value is not None
            position = int(value)
        self._member.commit(asynchronous=False)
        for number, (group, consumer) in enumerate(self._groups.items()):
            newcomer = self._consumer(group)
            for client in (consumer, newcomer):
                assert committed(client) == 100 + number, group
            newcomer.close()
        for producer in self._producers:
            producer.begin_transaction()
            self._produce(producer)


def committed(client: Consumer) -> int:
    """The offset of a group; the coordinator may have moved since the client asked for it."""

    def offset() -> TopicPartition | None:
        try:
            (place,) = client.committed([TopicPartition(TOPIC, 0)], timeout=WAIT_S)
        except KafkaException as error:
            if error.args[0].code() in COORDINATOR_MOVES:
                return None
            raise
        assert place.error is None, place.error
        return place

    return int(wait_until("a committed offset", offset, timeout_s=WAIT_S).offset)


@contextmanager
def clients(bootstrap: str) -> Iterator[Clients]:
    made = Clients(bootstrap)
    try:
        yield made
    finally:
        made.close()


def test_one_broker_finds_offsets_and_transactions_after_growth_and_restarts(
    tmp_path: Path,
) -> None:
    with odradek_broker(tmp_path, overrides=SETTINGS) as broker, clients(broker.address) as both:
        both.grow()
        both.check()
        assert broker.stop() == 0
        broker.start()
        both.check()
        broker.kill()
        broker.start()
        both.check()


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_cluster_finds_offsets_and_transactions_after_growth_and_restarts_of_each_broker(
    ensemble: str, tmp_path: Path, is_killed: bool
) -> None:
    with (
        broker_cluster(
            tmp_path, zookeeper_connect=f"{ensemble}/{tmp_path.name}", overrides=SETTINGS
        ) as cluster,
        clients(cluster.bootstrap) as both,
    ):
        both.grow()
        both.check()
        for broker_id in list(cluster.brokers):
            if is_killed:
                cluster.kill(broker_id)
            else:
                cluster.stop(broker_id)
            cluster.start(broker_id)
            for topic in (*INTERNAL, TOPIC):
                cluster.wait_until_complete(topic)
            both.check()
