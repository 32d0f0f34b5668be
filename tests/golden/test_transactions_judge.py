"""A directory with transactions is seen alike by Apache Kafka and by our broker."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.scripts.talk import Talk
from tests.support.apache import apache_kafka
from tests.support.broker_process import odradek_broker
from tests.support.transaction_history import PARTITIONS, SETTINGS, TransactionHistory, seen
from tests.support.zookeeper import zookeeper

pytestmark = pytest.mark.judge

Play = Callable[[TransactionHistory, str], dict[str, Any]]


def begin(history: TransactionHistory, address: str) -> dict[str, Any]:
    """The first transactions; what is seen of them."""
    talk = Talk(address)
    history.begin(talk)
    history.play(talk)
    return shown(talk)


def go_on(history: TransactionHistory, address: str) -> dict[str, Any]:
    """More of them."""
    talk = Talk(address)
    history.play(talk)
    return shown(talk)


def shown(talk: Talk) -> dict[str, Any]:
    """What is seen; the talk ends."""
    try:
        return seen(talk)
    finally:
        talk.close()


def end(address: str) -> None:
    """End all transactions: every consumer gets to the end of the log."""
    talk = Talk(address)
    TransactionHistory().end_all(talk)
    after = seen(talk)
    for partition in range(PARTITIONS):
        assert after[f"{partition} latest 1"] == after[f"{partition} latest 0"]
    assert after["offsets, stable: True"] == after["offsets, stable: False"]
    talk.close()


def transaction_indexes(folder: Path) -> dict[str, bytes]:
    """The files of aborted transactions."""
    return {
        f"{path.parent.name}/{path.name}": path.read_bytes()
        for path in sorted(folder.glob("history-*/*.txnindex"))
        if path.stat().st_size
    }


def test_both_brokers_see_the_same_transactions_in_one_directory(tmp_path: Path) -> None:
    history = TransactionHistory()
    with zookeeper(tmp_path / "zookeeper") as coordinator:
        settings = {**SETTINGS, "log.dirs": str(tmp_path / "data")}
        with apache_kafka(
            tmp_path, zookeeper_address=f"{coordinator}/one", overrides=settings
        ) as apache:
            written = begin(history, apache.address)
        ours = {**settings, "zookeeper.connect": f"{coordinator}/one"}
        with odradek_broker(tmp_path / "ours", overrides=ours) as broker:
            talk = Talk(broker.address)
            assert shown(talk) == written
            written = go_on(history, broker.address)
            assert broker.stop() == 0  # its session ends, too
        with apache_kafka(
            tmp_path, zookeeper_address=f"{coordinator}/one", overrides=settings
        ) as apache:
            talk = Talk(apache.address)
            assert shown(talk) == written
            end(apache.address)


def test_both_brokers_write_the_same_indexes_of_aborted_transactions(tmp_path: Path) -> None:
    ours, apaches = tmp_path / "ours", tmp_path / "apaches"
    with odradek_broker(ours, overrides=SETTINGS) as broker:
        history = TransactionHistory()
        begin(history, broker.address)
        go_on(history, broker.address)
        assert broker.stop() == 0
    with (
        zookeeper(tmp_path / "zookeeper") as coordinator,
        apache_kafka(apaches, zookeeper_address=coordinator, overrides=SETTINGS) as apache,
    ):
        history = TransactionHistory()
        begin(history, apache.address)
        go_on(history, apache.address)
    written = transaction_indexes(apaches / "data")
    assert len(written) > PARTITIONS
    assert transaction_indexes(ours / "data") == written


def damage_indexes(folder: Path) -> None:
    """Delete indexes of one partition, and replace the transaction indexes of the other by junk."""
    for suffix in ("index", "txnindex"):
        for path in folder.glob(f"history-0/*.{suffix}"):
            path.unlink()
    for path in folder.glob("history-1/*.txnindex"):
        path.write_bytes(b"\xff" * 999)


def test_both_brokers_rebuild_the_same_indexes_of_aborted_transactions(tmp_path: Path) -> None:
    with zookeeper(tmp_path / "zookeeper") as coordinator:
        address = f"{coordinator}/one"
        settings = {**SETTINGS, "log.dirs": str(tmp_path / "data")}
        with apache_kafka(tmp_path, zookeeper_address=address, overrides=settings) as apache:
            history = TransactionHistory()
            begin(history, apache.address)
            written = go_on(history, apache.address)
        stored = transaction_indexes(tmp_path / "data")
        assert len(stored) > PARTITIONS
        damage_indexes(tmp_path / "data")
        shutil.copytree(tmp_path / "data", tmp_path / "copy")
        with apache_kafka(tmp_path, zookeeper_address=address, overrides=settings) as apache:
            assert shown(Talk(apache.address)) == written
        assert transaction_indexes(tmp_path / "data") == stored
        ours = {**settings, "log.dirs": str(tmp_path / "copy"), "zookeeper.connect": address}
        with odradek_broker(tmp_path / "ours", overrides=ours) as broker:
            assert shown(Talk(broker.address)) == written
            assert broker.stop() == 0
        assert transaction_indexes(tmp_path / "copy") == stored


def delete(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def drop_last_entry(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-34])


DAMAGES = (delete, empty, drop_last_entry)


def test_neither_broker_misses_entries_of_a_transaction_index_alone(tmp_path: Path) -> None:
    """A segment without aborted transactions has no such file, or an empty one."""
    with zookeeper(tmp_path / "zookeeper") as coordinator:
        address = f"{coordinator}/one"
        settings = {**SETTINGS, "log.dirs": str(tmp_path / "data")}
        with apache_kafka(tmp_path, zookeeper_address=address, overrides=settings) as apache:
            history = TransactionHistory()
            begin(history, apache.address)
            go_on(history, apache.address)
        stored = transaction_indexes(tmp_path / "data")
        assert len(stored) >= len(DAMAGES)
        for number, name in enumerate(stored):
            DAMAGES[number % len(DAMAGES)](tmp_path / "data" / name)
        left = transaction_indexes(tmp_path / "data")
        shutil.copytree(tmp_path / "data", tmp_path / "copy")
        with apache_kafka(tmp_path, zookeeper_address=address, overrides=settings) as apache:
            apaches = shown(Talk(apache.address))
        assert transaction_indexes(tmp_path / "data") == left != stored
        ours = {**settings, "log.dirs": str(tmp_path / "copy"), "zookeeper.connect": address}
        with odradek_broker(tmp_path / "ours", overrides=ours) as broker:
            assert shown(Talk(broker.address)) == apaches
            assert broker.stop() == 0
        assert transaction_indexes(tmp_path / "copy") == left
