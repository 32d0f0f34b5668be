"""The scene for the transaction tools: transactional ids in every state, and hanging transactions.

Requests are made by hand: a transaction hangs when a producer writes without its coordinator, which
needs a broker that does not verify (SETTINGS).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from odradek.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tests.support.transactional_requests import Producer, begin, create_topics, end, produce, until
from tests.support.wire import Wire

SETTINGS: Final[Mapping[str, str]] = {
    "transaction.partition.verification.enable": "false",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
TOPICS: Final = {"orders": 4, "bills": 1}
OLD_MS: Final = 20 * 60_000
"""How long ago the records of hanging transactions were written."""
HANGING_ID: Final = 424_242
IDEMPOTENT_ID: Final = 777_777
"""Like HANGING_ID a producer id that no coordinator knows."""


def make_scene(address: str) -> None:
    """Create the scene on an empty broker."""
    with Wire(address) as wire:
        create_topics(wire, TOPICS)
        begin(wire, "only-an-id")
        ongoing = begin(wire, "ongoing-transaction", {"orders": [0, 1]})
        produce(wire, ongoing, "orders", 0)
        produce(wire, ongoing, "orders", 1)
        for name, is_committed in (("committed", True), ("aborted", False)):
            ended = begin(wire, name, {"orders": [0], "bills": [0]})
            produce(wire, ended, "orders", 0)
            produce(wire, ended, "bills", 0)
            end(wire, ended, is_committed=is_committed)
            asked = DescribeTransactionsRequest(transactional_ids=[name])
            until(partial(wire.call, asked, 0), _is_complete)
        produce(wire, Producer(None, IDEMPOTENT_ID, 3), "bills", 0, is_transactional=False)
        for partition in (2, 3):
            produce(wire, Producer("hanging", HANGING_ID, 1), "orders", partition, age_ms=OLD_MS)
        # Its coordinator knows the producer, and knows nothing of this partition.
        strays = begin(wire, "strays", {"bills": [0]})
        produce(wire, strays, "orders", 3, age_ms=OLD_MS)
        produce(wire, strays, "bills", 0, age_ms=OLD_MS)


def _is_complete(response: DescribeTransactionsResponse) -> bool:
    return response.transaction_states[0].transaction_state.startswith("Complete")
