"""kafka-python 3.x: its own asynchronous network, flexible versions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from tests.clients.contract import EARLIEST, LATEST, WAIT_S, Abilities, How, Message, transacted

with warnings.catch_warnings():
    # Its import calls a function that Python 3.11 deprecates and 3.13 does not.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient, NewTopic

ACKS: dict[str, int | str] = {"0": 0, "1": 1, "all": "all"}


class KafkaPythonReader:
    """A consumer that is assigned one partition."""

    def __init__(self, bootstrap: str, partition: TopicPartition, start: str, count: int) -> None:
        self._count = count
        self._partition = partition
        self._consumer: Any = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=None, consumer_timeout_ms=int(WAIT_S * 1000)
        )
        self._consumer.assign([partition])
        self.position = self._find(start)
        self._consumer.seek(partition, self.position)

    def _find(self, start: str) -> int:
        if start == EARLIEST:
            return int(self._consumer.beginning_offsets([self._partition])[self._partition])
        end = int(self._consumer.end_offsets([self._partition])[self._partition])
        if start == LATEST:
            return end
        kind, number = start.split(":")
        if kind == "offset":
            return int(number)
        position = self._consumer.offsets_for_times({self._partition: int(number)})[self._partition]
        return end if position is None else int(position.offset)

    def messages(self) -> list[Message]:
        """Read the requested records, then close the consumer."""
        gathered: list[Message] = []
        while len(gathered) < self._count:
            record = next(self._consumer)
            gathered.append(
                Message(
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                    key=record.key,
                    value=record.value,
                    headers=tuple(record.headers),
                    offset=record.offset,
                )
            )
        self._consumer.close()
        return gathered


class KafkaPython:
    """kafka-python."""

    name = "kafka-python"
    abilities = Abilities(null_headers=False)

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with the library's admin client."""
        admin: Any = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        try:
            admin.create_topics([NewTopic(topic, partitions, 1)])
        finally:
            admin.close()

    def produce(self, topic: str, messages: Sequence[Message], how: How) -> list[int]:
        """Use a producer for this call only."""
        producer: Any = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks=ACKS[how.acks],
            compression_type=None if how.codec == "none" else how.codec,
            enable_idempotence=how.idempotent,
            linger_ms=5,
        )
        try:
            pending = [
                producer.send(
                    topic,
                    partition=message.partition,
                    timestamp_ms=message.timestamp_ms,
                    key=message.key,
                    value=message.value,
                    headers=list(message.headers),
                )
                for message in messages
            ]
            producer.flush(timeout=WAIT_S)
            responses = [future.get(timeout=WAIT_S) for future in pending]
            return [-1 if how.acks == "0" else int(response.offset) for response in responses]
        finally:
            producer.close()

    def transact(self, transactional_id: str, topic: str, count: int, *, is_commit: bool) -> None:
        """Use a producer for this call only."""
        producer: Any = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            transactional_id=transactional_id,
            max_block_ms=int(WAIT_S * 1000),
        )
        try:
            producer.init_transactions()
            producer.begin_transaction()
            for value in transacted(transactional_id, count, is_commit=is_commit):
                producer.send(topic, value, partition=0)
            producer.flush(timeout=WAIT_S)
            if is_commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        finally:
            producer.close(timeout=0)

    def read(self, topic: str, partition: int, start: str, count: int) -> KafkaPythonReader:
        """Use a consumer for this call only."""
        return KafkaPythonReader(self._bootstrap, TopicPartition(topic, partition), start, count)

    def close(self) -> None:
        """Nothing to close: nothing runs between calls."""
