"""What has the name of a segment's file and is not a file costs a warning, not the directory."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from odradek.runtime.system_files import SystemFileSystem
from odradek.storage.events import StorageEvent
from odradek.storage.files import names
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.log.log import Log, open_log
from odradek.storage.log_config import LogConfig
from tests.cluster.acknowledged import read_all as read_numbers
from tests.support.broker_process import odradek_broker
from tests.support.compacted import WAIT_S, create_topic
from tests.support.logs import NOW_MS, append, batch, flush, read_all

CONFIG = LogConfig(segment_bytes=1_000, index_interval_bytes=100)


def make_folder(path: Path) -> None:
    path.mkdir()
    (path / "inner").touch()


def make_socket(path: Path) -> None:
    server = socket.socket(socket.AF_UNIX)
    # The path of a socket is limited to 107 bytes.
    folder = os.open(path.parent, os.O_DIRECTORY)
    server.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)
    server.close()


KINDS: dict[str, Callable[[Path], None]] = {
    "folder": make_folder,
    "pipe": os.mkfifo,
    "socket": make_socket,
    "loop": lambda path: path.symlink_to(path),
    "dangling link": lambda path: path.symlink_to(path.with_name("missing")),
}
FREE_BASE = 9_999
SUFFIXES = (
    *(names.LOG, names.OFFSET_INDEX, names.TIME_INDEX, names.TXN_INDEX, names.SNAPSHOT),
    *(f"{names.LOG}{ending}" for ending in (names.SWAP, names.CLEANED, names.DELETED)),
    *(f"{names.OFFSET_INDEX}{ending}" for ending in (names.SWAP, names.CLEANED, names.DELETED)),
)
# A log whose own .log file is gone is another matter.
PLACES = [(suffix, True) for suffix in SUFFIXES] + [(suffix, False) for suffix in SUFFIXES[1:]]


def open_folder(folder: Path, events: list[StorageEvent], *, was_clean: bool) -> Log:
    files = SystemFileSystem()
    return open_log(
        files,
        str(folder),
        "orders",
        0,
        CONFIG,
        log_start_offset=0,
        recovery_point=0,
        was_clean_shutdown=was_clean,
        now_ms=NOW_MS,
        descriptors=Descriptors(files, report=events.append),
    )


@pytest.mark.parametrize("was_clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize(("suffix", "is_free"), PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_log_opens_beside_what_is_not_a_file_and_goes_on(
    tmp_path: Path, kind: str, suffix: str, is_free: bool, was_clean: bool
) -> None:
    log = open_folder(tmp_path, [], was_clean=False)
    append(
        log,
        *(batch(each, producer_id=7, producer_epoch=0, base_sequence=each) for each in range(9)),
    )
    base_offset = FREE_BASE if is_free else log.segments.base_offsets[-1]
    flush(log)
    log.close(NOW_MS)
    path = tmp_path / names.file_name(base_offset, suffix)
    if path.exists():
        path.unlink()
    KINDS[kind](path)
    events: list[StorageEvent] = []
    log = open_folder(tmp_path, events, was_clean=was_clean)
    assert [event.place for event in events if "is not a file" in event.text] == [str(path)]
    former = read_all(log)
    assert log.end_offset == 9
    for each in range(30):
        append(log, batch(each))
    flush(log)
    written = read_all(log)
    assert written.startswith(former)
    log.close(NOW_MS)
    log = open_folder(tmp_path, events, was_clean=True)
    assert read_all(log) == written
    log.check()
    log.close(NOW_MS)


@pytest.mark.parametrize("name", [b"caf\xe9-3", b"a b-0", b"a\nb-0"])
def test_folder_that_no_topic_can_have_is_passed_over(tmp_path: Path, name: bytes) -> None:
    with odradek_broker(tmp_path) as broker:
        create_topic(broker, "orders", {})
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce("orders", b"0")
        assert producer.flush(WAIT_S) == 0
        folder = os.path.join(os.fsencode(broker.data), name)
        os.mkdir(folder)
        broker.kill()
        # The first start writes the checkpoints that the second one reads.
        for _ in range(2):
            broker.start()
            assert read_numbers(broker.address, "orders", 1) == {0: [0]}
            assert broker.stop() == 0
        assert os.path.isdir(folder)
        log = (tmp_path / "broker.log").read_text()
        assert "malformed checkpoint" not in log
        assert "Traceback" not in log


def test_broker_starts_with_a_folder_among_its_segments(tmp_path: Path) -> None:
    with odradek_broker(tmp_path) as broker:
        create_topic(broker, "orders", {})
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce("orders", b"0")
        assert producer.flush(WAIT_S) == 0
        assert broker.stop() == 0
        folder = broker.data / "orders-0" / names.file_name(FREE_BASE, names.LOG)
        folder.mkdir()
        broker.start()
        assert read_numbers(broker.address, "orders", 1) == {0: [0]}
        assert broker.stop() == 0
        assert folder.is_dir()
        assert "is not a file, and is passed over" in (tmp_path / "broker.log").read_text()
