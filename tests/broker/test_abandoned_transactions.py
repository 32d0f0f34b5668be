"""Transactions whose producers never come back are aborted at their timeout; no others are."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.support.broker_process import odradek_broker
from tests.support.transactional_requests import Producer, begin, create_topics, end, produce, until
from tests.support.wire import Wire

CLEANUP: Final = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
NEVER_MS: Final = 3_600_000
PARTITIONS: Final = 4
LATEST: Final = -1
TOPIC: Final = "t"


class Abandoned:
    """Transactions that their producers have left, and when each began and was aborted."""

    def __init__(self, wire: Wire) -> None:
        self.began_s: dict[Producer, float] = {}
        self.aborted_s: dict[Producer, float] = {}
        self._wire = wire

    def look(self) -> bool:
        """Note which are aborted by now; whether all are."""
        by_id = {producer.transactional_id or "": producer for producer in self.began_s}
        request = DescribeTransactionsRequest(transactional_ids=list(by_id))
        for state in self._wire.call(request, 0).transaction_states:
            if state.transaction_state == "CompleteAbort":
                self.aborted_s.setdefault(by_id[state.transactional_id], monotonic())
        return len(self.aborted_s) == len(self.began_s)

    def delays_ms(self) -> list[float]:
        """How long each was open, ascending."""
        return sorted(
            (self.aborted_s[producer] - began_s) * 1000
            for producer, began_s in self.began_s.items()
        )


@pytest.mark.parametrize(
    ("id_count", "open_count", "abandoned_every", "timeout_ms", "late_ms"),
    [
        (200, 20, 20, 1_500, NEVER_MS),
        pytest.param(2_000, 50, 100, 10_000, 8_000, marks=pytest.mark.slow),
    ],
)
def test_abandoned_transactions_are_aborted_at_their_timeout_and_no_others_are(
    tmp_path: Path,
    id_count: int,
    open_count: int,
    abandoned_every: int,
    timeout_ms: int,
    late_ms: int,
) -> None:
    """late_ms  how long after its timeout a transaction is aborted at most, on a quiet machine"""
    names = [f"id-{number}" for number in range(id_count)]
    with (
        odradek_broker(tmp_path, overrides={CLEANUP: str(NEVER_MS)}) as broker,
        Wire(broker.address) as wire,
    ):
        create_topics(wire, {TOPIC: PARTITIONS})
        abandoned = Abandoned(wire)
        for start in range(0, id_count, open_count):
            opened = []
            for number in range(start, start + open_count):
                is_abandoned = number % abandoned_every == 0
                began_s = monotonic()
                producer = begin(
                    wire,
                    names[number],
                    {TOPIC: [number % PARTITIONS]},
                    timeout_ms=timeout_ms if is_abandoned else 40 * timeout_ms,
                )
                produce(wire, producer, TOPIC, number % PARTITIONS)
                if is_abandoned:
                    abandoned.began_s[producer] = began_s
                else:
                    opened.append(producer)
            for producer in opened:
                end(wire, producer, is_committed=True)
            abandoned.look()
        until(abandoned.look, bool)
        delays_ms = abandoned.delays_ms()
        states = until(partial(described, wire, names), are_complete)
        fenced = [end_error(wire, producer) for producer in abandoned.began_s]
        for partition in range(PARTITIONS):
            assert offset(wire, partition, isolation=1) == offset(wire, partition, isolation=0)
    print(f"{len(delays_ms)} of {id_count} abandoned, aborted after {delays_ms[-1]:.0f} ms at most")
    assert delays_ms[0] >= timeout_ms
    assert delays_ms[-1] <= timeout_ms + late_ms
    left = {producer.transactional_id for producer in abandoned.began_s}
    assert len(left) == id_count // abandoned_every
    for name, (state, epoch) in states.items():
        assert (state, epoch) == (("CompleteAbort", 1) if name in left else ("CompleteCommit", 0))
    assert set(fenced) <= {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}


def are_complete(states: dict[str, tuple[str, int]]) -> bool:
    """Whether every transaction has ended."""
    return all(state.startswith("Complete") for state, _ in states.values())


def described(wire: Wire, names: list[str]) -> dict[str, tuple[str, int]]:
    """State and producer epoch of each id."""
    request = DescribeTransactionsRequest(transactional_ids=names)
    return {
        state.transactional_id: (state.transaction_state, state.producer_epoch)
        for state in wire.call(request, 0).transaction_states
    }


def end_error(wire: Wire, producer: Producer) -> ErrorCode:
    """What a producer gets that wants to commit after all."""
    assert producer.transactional_id is not None
    request = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=True,
    )
    return ErrorCode(wire.call(request, 3).error_code)


def offset(wire: Wire, partition: int, *, isolation: int) -> int:
    """The high watermark (isolation 0) or the last stable offset (1)."""
    asked = ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=-1, timestamp_ms=LATEST
    )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])],
    )
    return int(wire.call(request, 7).topics[0].partitions[0].offset)
