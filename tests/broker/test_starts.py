"""Starts that do not get to their end: what they leave, wherever they end."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import pytest

from odradek.broker.node.disk_reserve import RESERVE_BYTES, RESERVE_NAME
from odradek.broker.node.node import Node
from odradek.broker.node.start_error import StartError, StartInterrupted
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.load import make_settings
from odradek.controller.coordination.errors import StorageFailed
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.files import Bytes, File
from odradek.runtime.pending import Pending
from odradek.runtime.system_files import SystemFile, SystemFileSystem
from odradek.storage.checkpoints.checkpoint_file import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
)
from odradek.storage.checkpoints.clean_shutdown import CLEAN_SHUTDOWN_FILE
from odradek.storage.directories import log_manager as storage_manager
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.log.log import open_log
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.talk import Talk
from tests.support.broker_process import odradek_broker
from tests.support.logs import batch as stored_batch
from tests.support.logs import read_all
from tests.support.pauses import pause
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess

TOPICS = ("one", "two", "three")


class Injected(Exception):
    """A failure that nothing expects."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with records, after a clean stop."""
    folder = tmp_path_factory.mktemp("stopped")
    with odradek_broker(folder) as broker:
        talk = Talk(broker.address)
        for topic in TOPICS:
            talk.make_topic(topic, 2)
            for _ in range(3):
                response = talk.quiet(produce_request(topic, batch(4)), 9)
                assert response.responses[0].partition_responses[0].error_code == 0
        talk.close()
        assert broker.stop() == 0
        return broker.data


def tree_of(data: Path) -> dict[str, bytes]:
    """Every file but those of coordination; checkpoints with their lines sorted."""
    contents: dict[str, bytes] = {}
    for path in sorted(data.rglob("*")):
        if path.is_file() and not path.name.startswith("coordination."):
            content = path.read_bytes()
            if path.name in CHECKPOINT_FILES:
                content = b"".join(sorted(content.splitlines(keepends=True)))
            contents[str(path.relative_to(data))] = content
    return contents


@pytest.fixture
def data(stopped: Path, tmp_path: Path) -> Path:
    """A copy of its own."""
    shutil.copytree(stopped, tmp_path / "data")
    assert (tmp_path / "data" / CLEAN_SHUTDOWN_FILE).exists()
    return tmp_path / "data"


def settings_of(data: Path, port: int = 0) -> BrokerSettings:
    return make_settings(
        {
            "broker.id": "0",
            "log.dirs": str(data),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "advertised.listeners": "PLAINTEXT://127.0.0.1:9",
        }
    )


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield made
    made.close()
    asyncio.set_event_loop(None)


def start_and_stop(
    loop: asyncio.AbstractEventLoop,
    settings: BrokerSettings,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """As `odradek.broker.node.process.run` does."""
    node = Node(loop, settings, should_stop=should_stop)
    try:
        node.start()
    finally:
        loop.run_until_complete(node.stop())


def fail(error: BaseException) -> Callable[..., NoReturn]:
    def failing(*_: Any, **__: Any) -> NoReturn:
        raise error

    return failing


CHECKPOINT_FILES = (
    RECOVERY_POINT_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    CLEANER_OFFSET_FILE,
)
STEPS = [
    "odradek.broker.node.coordination.EmbeddedTree",
    "odradek.broker.node.parts.NodeParts._build_services",
    "odradek.controller.controller.Controller.prepare",
    "odradek.storage.directories.log_manager.LogManager.claim",
    "odradek.broker.node.node.bind",
    "odradek.storage.directories.log_manager.LogManager.load",
    "odradek.storage.directories.log_manager.LogManager._adopt",
    "odradek.broker.node.node.Node._identity",
    "odradek.controller.controller.Controller.start",
    "odradek.broker.replication.leadership.Leadership._become_leader_or_follower",
    "odradek.broker.node.background.Background.start",
    "odradek.broker.node.background.Background._checkpoint",
    "odradek.broker.server.socket_server.SocketServer.listen",
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", [Injected(), OSError(errno.EIO, "failure"), StartError("no")])
def test_failed_start_leaves_the_directory_unchanged(
    step: str,
    error: Exception,
    data: Path,
    loop: asyncio.AbstractEventLoop,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = tree_of(data)
    with monkeypatch.context() as patched:
        patched.setattr(step, fail(error))
        with pytest.raises((type(error), StartError)):
            start_and_stop(loop, settings_of(data))
    assert tree_of(data) == before
    start_and_stop(loop, settings_of(data))
    assert tree_of(data) == before


@pytest.mark.parametrize("step", ["prepare", "start"])
def test_refused_coordination_leaves_the_directory_unchanged(
    step: str, data: Path, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree_of(data)
    refused = Pending[Any].failed(StorageFailed("no"))
    monkeypatch.setattr(
        f"odradek.controller.controller.Controller.{step}", lambda *_, **__: refused
    )
    with pytest.raises(StorageFailed):
        start_and_stop(loop, settings_of(data))
    assert tree_of(data) == before


def test_used_port_leaves_the_directory_unchanged(
    data: Path, loop: asyncio.AbstractEventLoop
) -> None:
    before = tree_of(data)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(StartError, match="cannot listen on"):
            start_and_stop(loop, settings_of(data, taken.getsockname()[1]))
    assert tree_of(data) == before


def test_used_port_leaves_no_new_directory(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(StartError, match="cannot listen on"):
            start_and_stop(loop, settings_of(tmp_path / "new", taken.getsockname()[1]))
    assert not list(tmp_path.iterdir())


def test_port_used_during_the_start_leaves_the_directory_unchanged(
    data: Path, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, port = tree_of(data), free_port()
    load = LogManager.load
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def load_while_another_one_listens(*given: Any, **more: Any) -> Any:
            taken.bind(("127.0.0.1", port))
            taken.listen()
            return load(*given, **more)

        monkeypatch.setattr(LogManager, "load", load_while_another_one_listens)
        with pytest.raises(StartError, match="cannot listen on"):
            start_and_stop(loop, settings_of(data, port))
    assert tree_of(data) == before


def test_interrupted_start_leaves_the_directory_unchanged(
    data: Path, loop: asyncio.AbstractEventLoop
) -> None:
    before = tree_of(data)
    asked = 0
    while True:
        asked += 1
        responses = [True] + [False] * (asked - 1)
        try:
            start_and_stop(loop, settings_of(data), responses.pop)
        except StartInterrupted:
            assert tree_of(data) == before, asked
        else:
            break
    assert asked > 2 * len(TOPICS), "asked before each log"
    assert tree_of(data) == before


def test_log_that_cannot_be_opened_leaves_the_directory_unchanged(
    data: Path, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails at the n-th log: the only directory is lost, for this time."""
    before = tree_of(data)
    for number in range(2 * len(TOPICS)):
        count = 0

        def failing(*given: Any, number: int = number, **more: Any) -> Any:
            nonlocal count
            count += 1
            if count > number:
                raise OSError(errno.EMFILE, "too many open files")
            return open_log(*given, **more)

        with monkeypatch.context() as patched:
            patched.setattr("odradek.storage.directories.directory_loading.open_log", failing)
            with pytest.raises(storage_manager.NoDirectoryLeft):
                start_and_stop(loop, settings_of(data))
        assert tree_of(data) == before


class LimitedFile(SystemFile):
    """A file on a volume that is nearly full."""

    volume: ClassVar[LimitedFileSystem]

    def append(self, chunks: Sequence[Bytes]) -> int:
        LimitedFile.volume.take(sum(map(len, chunks)))
        return super().append(chunks)

    def truncate(self, size: int) -> None:
        LimitedFileSystem.free_bytes += self.size() - size
        super().truncate(size)


class LimitedFileSystem(SystemFileSystem):
    """The host's, with a bound on what may be added."""

    free_bytes = 0

    def take(self, size: int) -> None:
        if size > self.free_bytes:
            raise OSError(errno.ENOSPC, "No space left on device")
        LimitedFileSystem.free_bytes -= size

    def open(self, path: str, *, create: bool = False) -> File:
        LimitedFile.volume = self
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return LimitedFile(path, os.open(path, flags, 0o644))

    def replace(self, path: str, data: bytes) -> None:
        self.take(len(data))
        super().replace(path, data)

    def remove(self, path: str) -> None:
        LimitedFileSystem.free_bytes += self.size(path)
        super().remove(path)

    def space(self, path: str) -> tuple[int, int]:
        return 1 << 40, self.free_bytes


@pytest.mark.parametrize("state", ["stopped", "killed"])
def test_broker_starts_on_a_full_disk(
    state: str, data: Path, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many times, and whatever a start leaves of the reserve, others take before the next one."""
    if state == "killed":
        (data / CLEAN_SHUTDOWN_FILE).unlink()
    assert (data / RESERVE_NAME).stat().st_size == RESERVE_BYTES
    monkeypatch.setattr("odradek.broker.node.platform.SystemFileSystem", LimitedFileSystem)
    monkeypatch.setattr(LimitedFileSystem, "free_bytes", 0)
    for _ in range(8):
        LimitedFileSystem.free_bytes = 0
        node = Node(loop, settings_of(data))
        node.start()
        partition = node.services.partitions.get("one", 0)
        assert partition is not None
        assert partition.log.end_offset == 12
        assert read_all(partition.log)
        assert LimitedFileSystem.free_bytes < 50_000
        (refusal,) = partition.append([stored_batch(value=b"v" * 60_000)], 0)
        assert isinstance(refusal, BrokerError)
        assert refusal.code is ErrorCode.KAFKA_STORAGE_ERROR
        loop.run_until_complete(node.stop())


def test_sigterm_during_a_start_ends_it_in_order(data: Path, tmp_path: Path) -> None:
    for number in range(1_000):
        shutil.copytree(data / f"{TOPICS[0]}-0", data / f"copy-{number}")
    with odradek_broker(tmp_path) as broker:
        assert broker.stop() == 0
        before = tree_of(data)
        mark = data / CLEAN_SHUTDOWN_FILE
        process = LoggedProcess(broker.command(), log=tmp_path / "second.log")
        deadline_s = time.monotonic() + 30
        while mark.exists():
            assert time.monotonic() < deadline_s
            pause()
        assert process.stop(timeout_s=30) == 0, process.tail()
        assert tree_of(data) == before


GARBAGE = [b"", b"\xff\x00garbage\n", b"0\n7\none 0 5\n", b"1\n0\n", b"0\n1\none 0 -4\n"]


@pytest.mark.parametrize("state", ["stopped", "killed"])
def test_foreign_files_beside_the_logs_are_reported_and_lose_no_record(
    state: str, data: Path, tmp_path: Path
) -> None:
    if state == "killed":
        (data / CLEAN_SHUTDOWN_FILE).unlink()
    garbage = dict(zip(CHECKPOINT_FILES, GARBAGE[1:], strict=True))
    for name, content in garbage.items():
        (data / name).write_bytes(content)
    (data / "one-0" / "partition.metadata").write_bytes(b"version: 0\ntopic_id: none\n")
    (data / "two-0" / "partition.metadata").write_bytes(b"")
    (data / "meta.properties").write_bytes(GARBAGE[1])
    with odradek_broker(tmp_path) as broker:
        lines = "\n".join(broker.process.lines())
        for name in (*garbage, "one-0", "two-0", "meta.properties"):
            assert re.search(f"WARNING.*{data}/{name}: ", lines), name
        talk = Talk(broker.address)
        for topic in TOPICS:
            talk.wait_for_topic(topic, 2)
            response = talk.quiet(produce_request(topic, batch(1)), 9)
            stored = response.responses[0].partition_responses[0]
            assert (stored.error_code, stored.base_offset) == (0, 12)
        talk.close()
        assert broker.stop() == 0
        broker.start()
        assert "odradek.storage" not in "\n".join(broker.process.lines())
        assert broker.stop() == 0
        for topic in TOPICS:
            assert b"topic_id: " in (data / f"{topic}-0" / "partition.metadata").read_bytes()


def test_start_fails_when_a_later_directory_has_the_coordination_files(
    data: Path, tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    before = tree_of(data)
    added = tmp_path / "added"
    added.mkdir()
    settings = make_settings(
        {
            "broker.id": "0",
            "log.dirs": f"{added},{data}",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "advertised.listeners": "PLAINTEXT://127.0.0.1:9",
        }
    )
    with pytest.raises(StartError, match=f"coordination files are in {data}, .* put it first"):
        Node(loop, settings)
    assert tree_of(data) == before
