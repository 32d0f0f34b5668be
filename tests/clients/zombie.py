"""A transactional producer that a test pauses: it writes until it is refused, then tries to commit.

    python -m tests.clients.zombie BOOTSTRAP TRANSACTIONAL_ID TOPIC TIMEOUT_MS

Prints `sent` after each record, `refused CODE` for each error, `committed` when the commit after an
error succeeds, and `over`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import sleep
from typing import Final

from confluent_kafka import KafkaException, Producer

WAIT_S: Final = 60.0
PAUSE_S: Final = 0.05


def is_refused(work: Callable[[], object]) -> bool:
    """Work; print the error if there is one."""
    try:
        work()
    except KafkaException as error:
        print("refused", error.args[0].name(), flush=True)
        return True
    return False


def main() -> None:
    """Write, be refused, try to commit."""
    bootstrap, transactional_id, topic, timeout_ms = sys.argv[1:]
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(timeout_ms),
            "delivery.timeout.ms": int(timeout_ms),
        }
    )
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()

    def send() -> None:
        producer.produce(topic, b"zombie", partition=0)
        producer.flush(WAIT_S)
        print("sent", flush=True)
        sleep(PAUSE_S)

    while not is_refused(send):
        pass
    if not is_refused(lambda: producer.commit_transaction(WAIT_S)):
        print("committed", flush=True)
    print("over", flush=True)


if __name__ == "__main__":
    main()
