"""A broker dies at any operation on its files between PREPARE and COMPLETE: transactions end."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

import pytest

from odradek.broker.transaction.metadata import TV_2, TransactionState
from odradek.protocol.errors import ErrorCode
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from tests.broker.transaction.stored_broker import FOLDER, OFFSETS, T_0, T_1, StoredBroker

BEFORE, VALUE, AFTER = 1, 2, 3
OPERATIONS_MIN = 10
"""Fewer would be a test that cuts nothing."""
COMPLETE = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}


class Death(BaseException):
    """Nothing that runs may catch it."""

    errno = 5
    strerror = "the process is dead"


class World:
    """The files of a broker over several starts."""

    def __init__(self, version: int = 0) -> None:
        self.files = MemoryFileSystem(folders=[FOLDER])
        self.version = version
        self.life = 0

    def start(self) -> StoredBroker:
        self.life += 1
        return StoredBroker(self.files, self.life, self.version)

    def die_at(self, operation: int) -> None:
        """At an operation from now on."""
        self.files.fail_operation(operation, cast(OSError, Death()))


class Cut:
    """A transaction, and a death while it is ended."""

    def __init__(self, operation: int, *, is_commit: bool, version: int = 0) -> None:
        self.world = World(version)
        broker = self.world.start()
        former = broker.begin()
        broker.write(former, BEFORE)
        assert broker.end(former, is_commit=True) is ErrorCode.NONE
        self.producer = broker.begin()
        broker.write(self.producer, VALUE)
        broker.flush()
        self.is_acknowledged = False
        self.used = 0
        before = self.world.files.operations
        self.world.die_at(operation)
        with suppress(Death):
            self.is_acknowledged = broker.end(self.producer, is_commit=is_commit) is ErrorCode.NONE
            broker.wait(10)
            self.used = self.world.files.operations - before
        self.has_died = not self.used

    def assert_ended(self, broker: StoredBroker) -> TransactionState:
        """Every transaction has ended, and the next one works."""
        state = broker.state().state
        assert state in COMPLETE.values()
        assert broker.is_stable()
        following = broker.begin()
        broker.write(following, AFTER)
        assert not broker.is_stable()
        assert broker.end(following, is_commit=True) is ErrorCode.NONE
        broker.wait(10)
        assert broker.is_stable()
        assert broker.committed_offset() == AFTER
        assert broker.outcomes(T_0, following) == broker.outcomes(T_1, following) == [True]
        return state


def assert_atomic(cut: Cut, broker: StoredBroker, *, is_commit: bool) -> None:
    """One outcome in all partitions, that which was acknowledged."""
    broker.end_all()
    offset = broker.committed_offset()
    outcomes = broker.outcomes(T_0, cut.producer)
    assert outcomes == broker.outcomes(T_1, cut.producer)
    assert len(outcomes) == 1
    assert outcomes == broker.outcomes(OFFSETS, cut.producer)
    assert offset == (VALUE if outcomes[0] else BEFORE)
    if cut.is_acknowledged or not is_commit:
        assert outcomes == [is_commit]
    assert cut.assert_ended(broker) is COMPLETE[outcomes[0]]


@pytest.mark.parametrize("version", [0, TV_2])
@pytest.mark.parametrize("is_commit", [True, False])
def test_broker_killed_at_any_operation_of_an_end_ends_the_transaction_after_its_start(
    is_commit: bool, version: int
) -> None:
    operation = 0
    ends: set[bool] = set()
    while True:
        operation += 1
        cut = Cut(operation, is_commit=is_commit, version=version)
        cut.world.files.kill()
        broker = cut.world.start()
        assert_atomic(cut, broker, is_commit=is_commit)
        ends.add(cut.is_acknowledged)
        if not cut.has_died:
            break
    assert operation > OPERATIONS_MIN
    assert ends == {True, False}


@pytest.mark.parametrize("is_commit", [True, False])
def test_broker_killed_again_at_its_start_ends_the_transaction_at_the_next_one(
    is_commit: bool,
) -> None:
    deaths = 0
    for operation in range(1, OPERATIONS_MIN + 1, 2):
        start_operation = 1
        while True:
            cut = Cut(operation, is_commit=is_commit)
            cut.world.files.kill()
            cut.world.die_at(start_operation)
            has_died = True
            with suppress(Death):
                cut.world.start()
                has_died = False
            cut.world.files.kill()
            if not has_died:
                break
            deaths += 1
            assert_atomic(cut, cut.world.start(), is_commit=is_commit)
            start_operation += 13
    assert deaths > OPERATIONS_MIN


@pytest.mark.parametrize("is_commit", [True, False])
def test_power_cut_at_any_operation_of_an_end_leaves_no_open_transaction(is_commit: bool) -> None:
    operation = 0
    while True:
        operation += 1
        cut = Cut(operation, is_commit=is_commit)
        cut.world.files.crash(SeededRandomness(operation))
        broker = cut.world.start()
        broker.end_all()
        cut.assert_ended(broker)
        if not cut.has_died:
            break
    assert operation > OPERATIONS_MIN


def test_transaction_of_a_killed_producer_is_aborted_by_its_timeout_after_the_start() -> None:
    world = World()
    broker = world.start()
    producer = broker.begin()
    broker.write(producer, VALUE)
    world.files.kill()
    broker = world.start()
    assert not broker.is_stable()
    assert broker.state().state is TransactionState.ONGOING
    broker.end_all()
    assert broker.state().state is TransactionState.COMPLETE_ABORT
    assert broker.is_stable()
    assert broker.outcomes(T_0, producer) == broker.outcomes(T_1, producer) == [False]
    assert broker.committed_offset() is None
    assert broker.end(producer, is_commit=True) is ErrorCode.PRODUCER_FENCED
