"""Starts a broker with Testcontainers, produces three records and consumes them."""

from confluent_kafka import Consumer, Producer
from testcontainers.community.kafka import KafkaContainer

TOPIC = "greetings"


def main() -> None:
    with KafkaContainer("odradek:7.9.0") as kafka:
        greet(kafka.get_bootstrap_server())


def greet(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for word in ("hello", "from", "Odradek"):
        producer.produce(TOPIC, word)
    producer.flush()

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "examples-python",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([TOPIC])
    for record in consumer.consume(3, timeout=60):
        print(record.offset(), record.value().decode())
    consumer.close()


if __name__ == "__main__":
    main()
