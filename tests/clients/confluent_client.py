"""confluent-kafka: librdkafka 2.x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.contract import EARLIEST, LATEST, WAIT_S, Abilities, How, Message, transacted


def to_message(record: Any) -> Message:
    """A record of the library, or its error."""
    if record.error() is not None:
        raise AssertionError(str(record.error()))
    return Message(
        partition=record.partition(),
        timestamp_ms=record.timestamp()[1],
        key=record.key(),
        value=record.value(),
        headers=tuple(record.headers() or ()),
        offset=record.offset(),
    )


class ConfluentReader:
    """A consumer that is assigned one partition."""

    def __init__(self, bootstrap: str, topic: str, partition: int, start: str, count: int) -> None:
        self._count = count
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "not-used",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
            }
        )
        low, high = self._consumer.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=WAIT_S
        )
        place = {EARLIEST: OFFSET_BEGINNING, LATEST: OFFSET_END}.get(start)
        if place is not None:
            self.position: int = low if start == EARLIEST else high
        else:
            kind, number = start.split(":")
            self.position = int(number)
            if kind == "time":
                asked = TopicPartition(topic, partition, int(number))
                offset = self._consumer.offsets_for_times([asked], timeout=WAIT_S)[0].offset
                self.position = high if offset == OFFSET_END else offset
            place = self.position
        if start == LATEST:
            place = self.position
        self._consumer.assign([TopicPartition(topic, partition, place)])

    def messages(self) -> list[Message]:
        """Read the requested records, then close the consumer."""
        gathered: list[Message] = []
        while len(gathered) < self._count:
            got = self._consumer.consume(self._count - len(gathered), timeout=WAIT_S)
            assert got, f"only {len(gathered)} of {self._count} records came"
            gathered += [to_message(record) for record in got]
        self._consumer.close()
        return gathered


class Confluent:
    """confluent-kafka."""

    name = "confluent-kafka"
    abilities = Abilities()

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with the library's admin client."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT_S)

    def produce(self, topic: str, messages: Sequence[Message], how: How) -> list[int]:
        """Use a producer for this call only."""
        offsets = [-1] * len(messages)
        errors: list[str] = []
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "acks": how.acks,
                "compression.type": how.codec,
                "enable.idempotence": how.idempotent,
                "linger.ms": 5,
            }
        )
        for index, message in enumerate(messages):

            def delivered(error: Any, record: Any, index: int = index) -> None:
                if error is not None:
                    errors.append(str(error))
                else:
                    offsets[index] = record.offset() if how.acks != "0" else -1

            producer.produce(
                topic,
                partition=message.partition,
                timestamp=message.timestamp_ms,
                key=message.key,
                value=message.value,
                headers=list(message.headers),
                on_delivery=delivered,
            )
        left = producer.flush(WAIT_S)
        assert not left, f"{left} records were not delivered in {WAIT_S} s"
        assert not errors, errors
        return offsets

    def transact(self, transactional_id: str, topic: str, count: int, *, is_commit: bool) -> None:
        """Use a producer for this call only."""
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "transactional.id": transactional_id}
        )
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        for value in transacted(transactional_id, count, is_commit=is_commit):
            producer.produce(topic, value, partition=0)
        # An abort drops what is not sent yet.
        assert not producer.flush(WAIT_S), "records were not delivered"
        end = producer.commit_transaction if is_commit else producer.abort_transaction
        end(WAIT_S)

    def read(self, topic: str, partition: int, start: str, count: int) -> ConfluentReader:
        """Use a consumer for this call only."""
        return ConfluentReader(self._bootstrap, topic, partition, start, count)

    def close(self) -> None:
        """Nothing to close: nothing runs between calls."""
