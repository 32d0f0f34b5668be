"""The program that `odradek demo eos` kills: copies a topic in transactions.

python -m odradek.demo.copier ADDRESS RECORDS [COMMITS OPEN]

RECORDS       of the input
COMMITS OPEN  stop after so many commits, when so many records of the next transaction are sent
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import monotonic
from typing import Any, Final

from odradek.tools.console.library import library

INPUT: Final = "input"
OUTPUT: Final = "output"
TRANSACTION_RECORDS: Final = 100
IN_TRANSACTION: Final = "in a transaction"
"""Printed when it stops; then it waits for the end of its standard input."""
TRANSACTIONAL_ID: Final = "copier"
GROUP: Final = "copier"
TIMEOUT_S: Final = 60.0
ENDED: Final = 1


class Copier:
    """Consumer and producer on one input and one output partition."""

    def __init__(self, address: str) -> None:
        module = library()
        self._producer = module.Producer(
            {"bootstrap.servers": address, "transactional.id": TRANSACTIONAL_ID, "log_level": 0}
        )
        self._consumer = module.Consumer(
            {
                "bootstrap.servers": address,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        # Its first request aborts what a copier before this one has left open.
        self._producer.init_transactions(TIMEOUT_S)
        self._input = module.TopicPartition(INPUT, 0)
        (committed,) = self._consumer.committed([self._input], TIMEOUT_S)
        self.offset = max(committed.offset, 0)
        self._consumer.assign([module.TopicPartition(INPUT, 0, self.offset)])
        self._module = module

    def send(self, count: int) -> None:
        """Begin a transaction, and send the next records of the input to the output."""
        self._producer.begin_transaction()
        deadline_s = monotonic() + TIMEOUT_S
        left = count
        while left and monotonic() < deadline_s:
            for record in self._consumer.consume(left, 1.0):
                if record.error() is None:
                    self._send(record)
                    left -= 1
        if left:
            raise SystemExit(ENDED)
        self._producer.flush(TIMEOUT_S)

    def _send(self, record: Any) -> None:
        self._producer.produce(OUTPUT, record.value(), partition=0)
        self.offset = record.offset() + 1

    def commit(self) -> None:
        """Commit the records together with the offset of the input."""
        offsets = [self._module.TopicPartition(INPUT, 0, self.offset)]
        group = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(offsets, group, TIMEOUT_S)
        self._producer.commit_transaction(TIMEOUT_S)


def main(arguments: Sequence[str]) -> None:
    """Copy from the committed offset on."""
    address, records, *stop_at = arguments
    copier = Copier(address)
    commits = 0
    while copier.offset < int(records):
        if stop_at and commits == int(stop_at[0]):
            copier.send(int(stop_at[1]))
            print(IN_TRANSACTION, flush=True)
            sys.stdin.read()
            return
        copier.send(min(TRANSACTION_RECORDS, int(records) - copier.offset))
        copier.commit()
        commits += 1


if __name__ == "__main__":
    main(sys.argv[1:])
