"""A stop and a kill -9 amid transactions: consumers and groups see the same afterwards."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.talk import Talk
from tests.support.broker_process import BrokerProcess
from tests.support.transaction_history import PARTITIONS, SETTINGS, TransactionHistory, seen


def test_broker_killed_amid_transactions_shows_the_same_after_its_start(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, overrides=SETTINGS).start()
    try:
        history = TransactionHistory()
        talk = Talk(broker.address)
        history.begin(talk)
        for leave in (broker.stop, broker.kill):
            history.play(talk)
            before = seen(talk)
            assert before["0 latest 1"] < before["0 latest 0"]
            talk.close()
            leave()
            broker.start()
            talk = Talk(broker.address)
            assert seen(talk) == before
        history.end_all(talk)
        after = seen(talk)
        for partition in range(PARTITIONS):
            assert after[f"{partition} latest 1"] == after[f"{partition} latest 0"]
        assert after["offsets, stable: True"] == after["offsets, stable: False"]
        talk.close()
    finally:
        broker.close()
