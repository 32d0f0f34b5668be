"""A directory with transactions is seen alike by Apache Kafka and by our broker."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Written:
    """A directory that Apache Kafka has written, and the ZooKeeper that knows its topics."""

    data: Path
    zookeeper: str
    seen: dict[str, Any]
    indexes: dict[str, bytes]
    history: TransactionHistory
    """What was sent."""

    def settings(self, data: Path) -> dict[str, str]:
        """The settings of a broker that runs on a copy of the directory."""
        return {**SETTINGS, "log.dirs": str(data), "zookeeper.connect": self.zookeeper}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """The directory; tests damage copies of it."""
    folder = tmp_path_factory.mktemp("apaches")
    with zookeeper(folder / "zookeeper") as coordinator:
        address = f"{coordinator}/one"
        with apache_kafka(folder, zookeeper_address=address, overrides=SETTINGS) as apache:
            history = TransactionHistory()
            begin(history, apache.address)
            contents = go_on(history, apache.address)
        indexes = transaction_indexes(folder / "data")
        yield Written(folder / "data", address, contents, indexes, history)


def test_both_brokers_see_the_same_transactions_in_one_directory(
    tmp_path: Path, written: Written
) -> None:
    shutil.copytree(written.data, tmp_path / "apaches")
    settings = written.settings(tmp_path / "apaches")
    with odradek_broker(tmp_path / "ours", overrides=settings) as broker:
        assert shown(Talk(broker.address)) == written.seen
        seen_by_ours = go_on(deepcopy(written.history), broker.address)
        assert broker.stop() == 0  # its session ends, too
    with apache_kafka(
        tmp_path / "apache", zookeeper_address=written.zookeeper, overrides=settings
    ) as apache:
        assert shown(Talk(apache.address)) == seen_by_ours
        end(apache.address)


def test_both_brokers_write_the_same_indexes_of_aborted_transactions(
    tmp_path: Path, written: Written
) -> None:
    with odradek_broker(tmp_path, overrides=SETTINGS) as broker:
        history = TransactionHistory()
        begin(history, broker.address)
        go_on(history, broker.address)
        assert broker.stop() == 0
    assert len(written.indexes) > PARTITIONS
    assert transaction_indexes(tmp_path / "data") == written.indexes


def damage_indexes(folder: Path) -> None:
    """Delete indexes of one partition, and replace the transaction indexes of the other by junk."""
    for suffix in ("index", "txnindex"):
        for path in folder.glob(f"history-0/*.{suffix}"):
            path.unlink()
    for path in folder.glob("history-1/*.txnindex"):
        path.write_bytes(b"\xff" * 999)


def test_both_brokers_rebuild_the_same_indexes_of_aborted_transactions(
    tmp_path: Path, written: Written
) -> None:
    for name in ("apaches", "ours"):
        shutil.copytree(written.data, tmp_path / name)
        damage_indexes(tmp_path / name)
    assert seen_by_apache(written, tmp_path) == written.seen
    assert transaction_indexes(tmp_path / "apaches") == written.indexes
    assert seen_by_us(written, tmp_path) == written.seen
    assert transaction_indexes(tmp_path / "ours") == written.indexes


def seen_by_apache(written: Written, folder: Path) -> dict[str, Any]:
    """What Apache Kafka shows of `folder/apaches`."""
    settings = written.settings(folder / "apaches")
    with apache_kafka(
        folder / "apache", zookeeper_address=written.zookeeper, overrides=settings
    ) as apache:
        return shown(Talk(apache.address))


def seen_by_us(written: Written, folder: Path) -> dict[str, Any]:
    """What our broker shows of `folder/ours`."""
    settings = written.settings(folder / "ours")
    with odradek_broker(folder / "broker", overrides=settings) as broker:
        contents = shown(Talk(broker.address))
        assert broker.stop() == 0
        return contents


def delete(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def drop_last_entry(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-34])


DAMAGES = (delete, empty, drop_last_entry)


@pytest.mark.slow
def test_neither_broker_misses_entries_of_a_transaction_index_alone(
    tmp_path: Path, written: Written
) -> None:
    """A segment without aborted transactions has no such file, or an empty one."""
    assert len(written.indexes) >= len(DAMAGES)
    for folder in ("apaches", "ours"):
        shutil.copytree(written.data, tmp_path / folder)
        for number, name in enumerate(written.indexes):
            DAMAGES[number % len(DAMAGES)](tmp_path / folder / name)
    left = transaction_indexes(tmp_path / "ours")
    apaches = seen_by_apache(written, tmp_path)
    assert transaction_indexes(tmp_path / "apaches") == left != written.indexes
    assert seen_by_us(written, tmp_path) == apaches
    assert transaction_indexes(tmp_path / "ours") == left
