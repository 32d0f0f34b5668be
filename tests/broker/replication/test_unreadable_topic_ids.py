"""A replica whose partition.metadata cannot be read: are its records of the topic that is named?"""

from __future__ import annotations

import errno
from uuid import UUID

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.storage.log.log import Log
from tests.support.logs import NOW_MS, batch
from tests.support.replicas import BROKER_ID, TOPIC_ID, Replicas

KEY = ("orders", 0)
FILE = "/a/orders-0/partition.metadata"
PEER = 2
OTHER_TOPIC_ID = UUID(int=77)
UNREADABLE = {
    "empty, as after a power cut": b"",
    "of another version": b"version: 1\ntopic_id: kVSgfurUQFGGpHMTBqBPiw",
    "without an id": b"version: 0\n",
    "not UTF-8": b"\xff",
}


def restarted_with(content: bytes, *, is_clean: bool = True) -> Replicas:
    """A replica with three records, and with a partition.metadata of this content."""
    replicas = Replicas(folders=("/a",))
    partition = replicas.lead()
    for _ in range(3):
        partition.append([batch(NOW_MS)], NOW_MS)
    replicas.stored.flush(partition.log)
    replicas.files.replace(FILE, content)
    replicas.restart(is_clean=is_clean)
    return replicas


def stray_folders(replicas: Replicas) -> list[str]:
    return [name for name in replicas.files.list("/a") if name.endswith("-stray")]


def log_of(replicas: Replicas) -> Log:
    log = replicas.stored.manager.get(*KEY)
    assert log is not None
    return log


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("name", UNREADABLE)
def test_replica_that_is_not_in_sync_keeps_its_unidentified_log_aside_and_begins_empty(
    name: str, is_clean: bool
) -> None:
    replicas = restarted_with(UNREADABLE[name], is_clean=is_clean)
    replicas.stored.events.clear()
    response = replicas.send_state(
        *KEY, PEER, (PEER,), 5, (BROKER_ID, PEER), topic_id=OTHER_TOPIC_ID
    )
    assert response.partition_errors == {}
    assert replicas.partitions.held(*KEY).log.end_offset == 0
    (folder,) = stray_folders(replicas)
    assert replicas.files.size(f"/a/{folder}/{0:020d}.log") > 0
    (event,) = replicas.stored.events
    assert event.is_warning
    assert folder in event.text
    assert event.place == "/a/orders-0"
    replicas.restart(is_clean=is_clean)
    assert replicas.stored.manager.topic_id(*KEY) == OTHER_TOPIC_ID
    assert log_of(replicas).end_offset == 0
    assert stray_folders(replicas) == [folder]


@pytest.mark.parametrize("name", UNREADABLE)
def test_new_replica_does_not_take_the_records_of_an_unidentified_log(name: str) -> None:
    replicas = restarted_with(UNREADABLE[name])
    response = replicas.send_state(
        *KEY, BROKER_ID, (BROKER_ID,), 5, topic_id=OTHER_TOPIC_ID, is_new=True
    )
    assert response.partition_errors == {}
    assert replicas.partitions.held(*KEY).log.end_offset == 0
    assert len(stray_folders(replicas)) == 1


@pytest.mark.parametrize("leader", [BROKER_ID, PEER])
@pytest.mark.parametrize("others", [(), (PEER,)])
@pytest.mark.parametrize("name", UNREADABLE)
def test_replica_in_sync_keeps_its_records_and_takes_the_id(
    name: str, others: tuple[int, ...], leader: int
) -> None:
    replicas = restarted_with(UNREADABLE[name])
    in_sync = (BROKER_ID,) if leader == BROKER_ID else (BROKER_ID, PEER)
    assigned = tuple({BROKER_ID: None, leader: None} | dict.fromkeys(others))
    response = replicas.send_state(*KEY, leader, in_sync, 5, assigned)
    assert response.partition_errors == {}
    assert replicas.partitions.held(*KEY).log.end_offset == 3
    assert stray_folders(replicas) == []
    replicas.restart(is_clean=True)
    assert replicas.stored.manager.topic_id(*KEY) == TOPIC_ID


def test_replica_without_the_file_keeps_its_records_and_takes_the_id() -> None:
    """Brokers before Kafka 2.8 wrote none."""
    replicas = restarted_with(b"")
    replicas.files.remove(FILE)
    replicas.restart(is_clean=True)
    response = replicas.send_state(*KEY, PEER, (PEER,), 5, (BROKER_ID, PEER))
    assert response.partition_errors == {}
    assert replicas.partitions.held(*KEY).log.end_offset == 3
    assert replicas.stored.manager.topic_id(*KEY) == TOPIC_ID


@pytest.mark.parametrize("operation", [1, 2])
def test_unidentified_log_that_cannot_be_kept_aside_is_not_replaced(operation: int) -> None:
    replicas = Replicas(folders=("/a", "/b"))
    log = replicas.lead().log
    assert log.directory == "/a/orders-0"
    replicas.files.replace(FILE, b"")
    replicas.restart(is_clean=True)
    replicas.files.fail_operation(operation, OSError(errno.EIO, "the disk is broken"))
    for leader_epoch in (5, 6):
        response = replicas.send_state(*KEY, PEER, (PEER,), leader_epoch, (BROKER_ID, PEER))
        assert response.partition_errors == {KEY: ErrorCode.KAFKA_STORAGE_ERROR}
    assert replicas.stored.manager.offline_directories == ("/a",)
    assert not replicas.files.exists("/b/orders-0")
