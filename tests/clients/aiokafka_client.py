"""aiokafka: older, not flexible versions on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.clients.contract import EARLIEST, LATEST, WAIT_S, Abilities, How, Message, transacted

ACKS: dict[str, int | str] = {"0": 0, "1": 1, "all": "all"}


async def find_position(consumer: Any, partition: TopicPartition, start: str) -> int:
    """The offset of a start position."""
    if start == EARLIEST:
        return int((await consumer.beginning_offsets([partition]))[partition])
    end = int((await consumer.end_offsets([partition]))[partition])
    if start == LATEST:
        return end
    kind, number = start.split(":")
    if kind == "offset":
        return int(number)
    position = (await consumer.offsets_for_times({partition: int(number)}))[partition]
    return end if position is None else int(position.offset)


class AioKafkaReader:
    """Looks up the start position now; a second consumer reads the records later."""

    def __init__(self, bootstrap: str, partition: TopicPartition, start: str, count: int) -> None:
        self._bootstrap = bootstrap
        self._partition = partition
        self._count = count
        self.position = asyncio.run(self._find(start))

    def _consumer(self) -> Any:
        return AIOKafkaConsumer(bootstrap_servers=self._bootstrap, enable_auto_commit=False)

    async def _find(self, start: str) -> int:
        async with self._consumer() as consumer:
            consumer.assign([self._partition])
            return await find_position(consumer, self._partition, start)

    async def _read(self) -> list[Message]:
        gathered: list[Message] = []
        async with self._consumer() as consumer:
            consumer.assign([self._partition])
            consumer.seek(self._partition, self.position)
            while len(gathered) < self._count:
                record = await asyncio.wait_for(consumer.getone(), WAIT_S)
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
        return gathered

    def messages(self) -> list[Message]:
        """Read the requested records."""
        if self._count == 0:
            return []
        return asyncio.run(self._read())


class AioKafka:
    """aiokafka."""

    name = "aiokafka"
    abilities = Abilities()

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with the library's admin client."""

        async def create() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await admin.start()
            try:
                await admin.create_topics([NewTopic(topic, partitions, 1)])
            finally:
                await admin.close()

        asyncio.run(create())

    def produce(self, topic: str, messages: Sequence[Message], how: How) -> list[int]:
        """Use a producer for this call only."""

        async def produce() -> list[int]:
            producer: Any = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                acks=ACKS[how.acks],
                compression_type=None if how.codec == "none" else how.codec,
                enable_idempotence=how.idempotent,
                linger_ms=5,
            )
            async with producer:
                pending = [
                    await producer.send(
                        topic,
                        partition=message.partition,
                        timestamp_ms=message.timestamp_ms,
                        key=message.key,
                        value=message.value,
                        headers=list(message.headers),
                    )
                    for message in messages
                ]
                responses = [await asyncio.wait_for(future, WAIT_S) for future in pending]
            return [-1 if response is None else int(response.offset) for response in responses]

        return asyncio.run(produce())

    def transact(self, transactional_id: str, topic: str, count: int, *, is_commit: bool) -> None:
        """Use a producer for this call only."""

        async def run() -> None:
            producer: Any = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap, transactional_id=transactional_id
            )
            try:
                await asyncio.wait_for(producer.start(), WAIT_S)
                await producer.begin_transaction()
                for value in transacted(transactional_id, count, is_commit=is_commit):
                    await asyncio.wait_for(
                        producer.send_and_wait(topic, value, partition=0), WAIT_S
                    )
                end = producer.commit_transaction if is_commit else producer.abort_transaction
                await asyncio.wait_for(end(), WAIT_S)
            finally:
                await producer.stop()

        asyncio.run(run())

    def read(self, topic: str, partition: int, start: str, count: int) -> AioKafkaReader:
        """Use consumers for this call only."""
        return AioKafkaReader(self._bootstrap, TopicPartition(topic, partition), start, count)

    def close(self) -> None:
        """Nothing to close: nothing runs between calls."""
