"""Produce three records and consume them with aiokafka."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

TOPIC = "greetings-aiokafka"
BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"


async def main() -> None:
    """Send, then read."""
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
        for word in ("hello", "from", "Odradek"):
            await producer.send_and_wait(TOPIC, word.encode(), partition=0)
    consumer = AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=BOOTSTRAP,
        group_id="examples-aiokafka",
        auto_offset_reset="earliest",
    )
    async with consumer:
        for _ in range(3):
            message = await consumer.getone()
            print(message.offset, message.value.decode())


asyncio.run(main())
