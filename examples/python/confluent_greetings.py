"""Produce three records and consume them with confluent-kafka (librdkafka)."""

import sys

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

TOPIC = "greetings-confluent"
BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"


def check(error: KafkaError | None, _: Message) -> None:
    """Called once a record is stored, or is not."""
    if error is not None:
        raise KafkaException(error)


producer = Producer({"bootstrap.servers": BOOTSTRAP})
for word in ("hello", "from", "Odradek"):
    producer.produce(TOPIC, word, partition=0, on_delivery=check)
producer.flush(30)

consumer = Consumer(
    {
        "bootstrap.servers": BOOTSTRAP,
        "group.id": "examples-confluent",
        "auto.offset.reset": "earliest",
    }
)
consumer.subscribe([TOPIC])
for message in consumer.consume(3, timeout=30):
    print(message.offset(), (message.value() or b"").decode())
consumer.close()
