"""One member of a group, as a program that tells what happens to it; it ends when it is killed.

python -m tests.clients.group_member LIBRARY ADDRESS TOPIC GROUP [INSTANCE]

assigned 0,1          the partitions that it has now
committed 0 12        it has read partition 0 up to offset 12 and committed that
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from typing import Any

with warnings.catch_warnings():
    # Its import reads resources by a call that Python 3.11 deprecates and 3.13 takes back.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import ConsumerRebalanceListener, KafkaConsumer

from confluent_kafka import Consumer

SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_MS = 300
POLL_S = 0.2


def tell(*words: object) -> None:
    """A line for the test."""
    print(*words, flush=True)


def tell_assigned(partitions: Iterable[Any]) -> None:
    """The partitions of the only topic."""
    tell("assigned", ",".join(str(number) for number in sorted(p.partition for p in partitions)))


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """kafka-python's way of telling."""

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Nothing: what is read is committed."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        """A new generation."""
        tell_assigned(assigned)


def run_kafka_python(address: str, topic: str, group: str, instance: str | None) -> None:
    """Read and commit until killed."""
    consumer: Any = KafkaConsumer(
        bootstrap_servers=address,
        group_id=group,
        group_instance_id=instance,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    consumer.subscribe([topic], listener=Listener())
    while True:
        for partition, records in consumer.poll(int(POLL_S * 1000)).items():
            consumer.commit()
            tell("committed", partition.partition, records[-1].offset + 1)


def run_confluent(address: str, topic: str, group: str, instance: str | None) -> None:
    """Read and commit until killed."""
    settings: dict[str, Any] = {
        "bootstrap.servers": address,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "reconnect.backoff.max.ms": 200,
    }
    if instance is not None:
        settings["group.instance.id"] = instance
    consumer = Consumer(settings)
    consumer.subscribe([topic], on_assign=lambda _, partitions: tell_assigned(partitions))
    while True:
        message = consumer.poll(POLL_S)
        if message is None or message.error() is not None:
            continue
        consumer.commit(message, asynchronous=False)
        tell("committed", message.partition(), message.offset() + 1)


def main() -> None:
    """Be the member that the arguments describe."""
    library, address, topic, group, *rest = sys.argv[1:]
    run = {"kafka-python": run_kafka_python, "confluent-kafka": run_confluent}[library]
    run(address, topic, group, rest[0] if rest else None)


if __name__ == "__main__":
    main()
