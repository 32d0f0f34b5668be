"""Copies a topic to another one in transactions, partition by partition, until it is killed.

    python -m tests.cluster.copier LIBRARY BOOTSTRAP SOURCE TARGET GROUP NUMBER SIZE PARTITIONS

A transaction has SIZE records, fewer at the end of the source, and commits their offsets for GROUP.
After an error all starts again with a new producer and consumer.  With confluent-kafka (and in
java/Copier.java) copiers share the partitions as members of the group; aiokafka does not send the
generation with the offsets, so copier NUMBER has the partitions of PARTITIONS (`0,2`) for ever.
"""

from __future__ import annotations

import asyncio
import faulthandler
import sys
from time import sleep
from typing import Any, Final, NamedTuple

import aiokafka
import aiokafka.errors
import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Message, Producer

WAIT_S: Final = 60.0
TIMEOUT_MS: Final = 20_000
IDLE_S: Final = 0.3
SESSION_MS: Final = 6_000
PAUSE_S: Final = 0.2
"""Between an error and the next attempt."""


class Copied(NamedTuple):
    """What is copied, and how."""

    bootstrap: str
    source: str
    target: str
    group: str
    number: int
    size: int
    partitions: tuple[int, ...]

    @property
    def transactional_id(self) -> str:
        """That of the producer."""
        return f"{self.group}-{self.number}"


class ConfluentCopier:
    """confluent-kafka."""

    def __init__(self, copied: Copied) -> None:
        self._copied = copied
        self._gathered: list[Message] = []

    def live(self) -> None:
        """Until an error."""
        copied = self._copied
        self._gathered.clear()
        producer = Producer(
            {
                "bootstrap.servers": copied.bootstrap,
                "transactional.id": copied.transactional_id,
                "transaction.timeout.ms": TIMEOUT_MS,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 500,
            }
        )
        producer.init_transactions(WAIT_S)
        consumer = Consumer(
            {
                "bootstrap.servers": copied.bootstrap,
                "group.id": copied.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_MS,
                "reconnect.backoff.max.ms": 500,
            }
        )
        consumer.subscribe([copied.source], on_assign=self._forget, on_revoke=self._forget)
        try:
            while True:
                message = consumer.poll(IDLE_S)
                if message is not None and message.error() is None:
                    self._gathered.append(message)
                if self._gathered and (message is None or len(self._gathered) == copied.size):
                    self._copy(producer, consumer)
                    self._gathered.clear()
        finally:
            faulthandler.cancel_dump_traceback_later()
            consumer.close()

    def _forget(self, consumer: Consumer, partitions: object) -> None:
        """Another member may copy what was gathered."""
        self._gathered.clear()

    def _copy(self, producer: Producer, consumer: Consumer) -> None:
        copied = self._copied
        offsets: dict[int, int] = {}
        producer.begin_transaction()
        for message in self._gathered:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            producer.produce(copied.target, message.value(), partition=partition)
            offsets[partition] = offset + 1
        # librdkafka may forget this call when the group's coordinator leaves the
        # cluster (confluentinc/librdkafka#5511): then the process ends.
        faulthandler.dump_traceback_later(WAIT_S + 10, exit=True)
        producer.send_offsets_to_transaction(
            [confluent_kafka.TopicPartition(copied.source, *place) for place in offsets.items()],
            consumer.consumer_group_metadata(),
            WAIT_S,
        )
        faulthandler.cancel_dump_traceback_later()
        producer.commit_transaction(WAIT_S)


class AioKafkaCopier:
    """aiokafka."""

    def __init__(self, copied: Copied) -> None:
        self._copied = copied

    def live(self) -> None:
        """Until an error."""
        asyncio.run(self._live())

    async def _live(self) -> None:
        copied = self._copied
        producer: Any = aiokafka.AIOKafkaProducer(
            bootstrap_servers=copied.bootstrap,
            transactional_id=copied.transactional_id,
            transaction_timeout_ms=TIMEOUT_MS,
            linger_ms=5,
        )
        consumer: Any = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=copied.bootstrap,
            group_id=copied.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        try:
            # It ends the transaction of the last life, whose offsets would be read too early.
            await asyncio.wait_for(producer.start(), WAIT_S)
            await asyncio.wait_for(consumer.start(), WAIT_S)
            consumer.assign(
                [
                    aiokafka.TopicPartition(copied.source, partition)
                    for partition in copied.partitions
                ]
            )
            gathered: list[Any] = []
            while True:
                missing = copied.size - len(gathered)
                parts = await consumer.getmany(timeout_ms=int(IDLE_S * 1000), max_records=missing)
                records = [record for part in parts.values() for record in part]
                gathered += records
                if gathered and (not records or len(gathered) == copied.size):
                    await asyncio.wait_for(self._copy(producer, gathered), WAIT_S)
                    gathered.clear()
        finally:
            await asyncio.gather(producer.stop(), consumer.stop(), return_exceptions=True)

    async def _copy(self, producer: Any, records: list[Any]) -> None:
        copied = self._copied
        offsets: dict[Any, int] = {}
        await producer.begin_transaction()
        sent = []
        for record in records:
            sent.append(
                await producer.send(copied.target, record.value, partition=record.partition)
            )
            offsets[aiokafka.TopicPartition(copied.source, record.partition)] = record.offset + 1
        await asyncio.gather(*sent)
        await producer.send_offsets_to_transaction(offsets, copied.group)
        await producer.commit_transaction()


ERRORS: Final = (KafkaException, aiokafka.errors.KafkaError, TimeoutError, OSError)


def main() -> None:
    """Copy until the process is killed."""
    library, bootstrap, source, target, group, number, size, partitions = sys.argv[1:]
    copied = Copied(
        bootstrap,
        source,
        target,
        group,
        int(number),
        int(size),
        tuple(int(partition) for partition in partitions.split(",")),
    )
    copier = (ConfluentCopier if library == "confluent-kafka" else AioKafkaCopier)(copied)
    while True:
        try:
            copier.live()
        except ERRORS as error:
            print(f"again after {error!r}", flush=True)
            sleep(PAUSE_S)


if __name__ == "__main__":
    main()
