"""Produce three records and consume them with kafka-python."""

import sys

from kafka import KafkaConsumer, KafkaProducer

TOPIC = "greetings-kafka-python"
BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"

producer = KafkaProducer(bootstrap_servers=BOOTSTRAP)
for word in ("hello", "from", "Odradek"):
    producer.send(TOPIC, word.encode(), partition=0).get(timeout=30)
producer.close()

consumer = KafkaConsumer(
    TOPIC,
    bootstrap_servers=BOOTSTRAP,
    group_id="examples-kafka-python",
    auto_offset_reset="earliest",
    consumer_timeout_ms=30_000,
)
for message in consumer:
    print(message.offset, message.value.decode())
    if message.offset == 2:
        break
consumer.close()
