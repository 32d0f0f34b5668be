"""Producer ids out of blocks."""

from __future__ import annotations

import pytest

from odradek.broker.producer_ids import ProducerIds
from odradek.controller.coordination.errors import ConnectionLoss
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.pending import Pending


class Controller:
    """Hands out blocks of ten, when the test says so."""

    def __init__(self, *, at_once: bool) -> None:
        self.at_once = at_once
        self.asked: list[Pending[tuple[int, int]]] = []

    def allocate(self) -> Pending[tuple[int, int]]:
        pending: Pending[tuple[int, int]] = Pending()
        self.asked.append(pending)
        if self.at_once:
            self.give()
        return pending

    def give(self) -> None:
        self.asked[-1].resolve(((len(self.asked) - 1) * 10, 10))


def test_ids_are_unique_across_blocks() -> None:
    controller = Controller(at_once=True)
    ids = ProducerIds(controller.allocate)
    assert [ids.take() for _ in range(35)] == list(range(35))


def test_next_block_is_requested_before_the_current_one_is_used_up() -> None:
    controller = Controller(at_once=True)
    ids = ProducerIds(controller.allocate)
    taken = [ids.take() for _ in range(9)]
    controller.at_once = False
    taken.append(ids.take())
    assert len(controller.asked) == 2
    with pytest.raises(BrokerError) as refusal:
        ids.take()
    assert refusal.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert len(controller.asked) == 2
    controller.give()
    assert [*taken, ids.take()] == list(range(11))


def test_failed_allocation_is_retried_by_the_next_producer() -> None:
    controller = Controller(at_once=False)
    ids = ProducerIds(controller.allocate)
    with pytest.raises(BrokerError):
        ids.take()
    controller.asked[-1].fail(ConnectionLoss())
    controller.at_once = True
    assert ids.take() == 10
