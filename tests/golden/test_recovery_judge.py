"""Apache Kafka and our broker in one directory: never at the same time, equal after a crash."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from fcntl import LOCK_EX, lockf
from pathlib import Path
from zlib import crc32

import pytest

from odradek.runtime.system_files import SystemFileSystem
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.log.log import open_log
from odradek.storage.log_config import LogConfig
from tests.support.apache import apache_kafka
from tests.support.broker_process import BrokerProcess
from tests.support.logs import NOW_MS, batch
from tests.support.moved_directory import seed_zookeeper, znodes
from tests.support.processes import ProcessFailed
from tests.support.zookeeper import zookeeper

pytestmark = pytest.mark.judge


def refused_start(folder: Path, data: Path) -> str:
    """What our broker says that cannot start on a directory."""
    broker = BrokerProcess(folder, overrides={"log.dirs": str(data)})
    with pytest.raises(ProcessFailed) as failure:
        broker.start()
    return str(failure.value)


def test_directory_is_refused_while_another_process_has_the_lock_that_java_takes(
    tmp_path: Path,
) -> None:
    """Java locks a file by fcntl, as `lockf` does."""
    data = tmp_path / "data"
    data.mkdir()
    with open(data / ".lock", "w") as file:
        lockf(file, LOCK_EX)
        assert f"{data} is in use by another broker process" in refused_start(tmp_path, data)
    assert [path.name for path in data.iterdir()] == [".lock"]


@pytest.mark.slow
def test_directory_in_use_by_one_broker_is_refused_by_the_other(tmp_path: Path) -> None:
    ours = BrokerProcess(tmp_path / "ours")
    with zookeeper(tmp_path / "zookeeper") as coordinator:
        try:
            ours.start()
            (tmp_path / "other").mkdir()
            seed_zookeeper(coordinator, "/one", znodes(ours.data, 0))
            with (
                pytest.raises(ProcessFailed, match=r"Failed to acquire lock on file \.lock"),
                apache_kafka(
                    tmp_path / "other",
                    zookeeper_address=f"{coordinator}/one",
                    overrides={"log.dirs": str(ours.data)},
                ),
            ):
                pass
            assert ours.stop() == 0
        finally:
            ours.close()
        with apache_kafka(tmp_path / "apache", zookeeper_address=f"{coordinator}/two") as apache:
            output = refused_start(tmp_path / "ours", apache.data)
            assert f"{apache.data} is in use by another broker process" in output
            assert apache.process.running()


@dataclass(frozen=True)
class Crashed:
    """A partition as an unclean stop has left it."""

    segments: dict[int, bytes]
    epochs: list[tuple[int, int]] = field(default_factory=list)
    ours: list[tuple[int, int]] | None = None
    """Leader epochs that we find, where they are not Apache's."""


def stored(*places: tuple[int, int]) -> bytes:
    """Batches at (offset, leader epoch)."""
    return b"".join(
        bytes(batch(NOW_MS + offset, base_offset=offset, leader_epoch=epoch).view)
        for offset, epoch in places
    )


PLAIN = stored((0, 0), (1, 0), (2, 0))
TORN = stored((3, 0), (4, 0), (5, 0))

CRASHED = {
    "whole": Crashed({0: PLAIN, 3: stored((3, 1), (4, 2))}),
    "gaps": Crashed({0: stored((0, 0), (1, 0), (5, 0)), 9: stored((12, 1), (13, 3), (500, 3))}),
    "emptied": Crashed({0: PLAIN, 3: b"", 9: stored((9, 1))}),
    "falling": Crashed(
        {0: stored((0, 0), (10, 7), (11, 7), (12, 0), (13, 0))}, [(0, 12)], [(0, 0), (7, 10)]
    ),
    "compacted-epochs": Crashed({0: stored((0, 1), (130, 5), (131, 5))}, [(1, 0), (5, 100)]),
    "short": Crashed({0: PLAIN, 3: TORN[:-1], 6: stored((6, 0))}),
    "checksum": Crashed({0: PLAIN, 3: TORN[:100] + b"#" + TORN[101:], 6: stored((6, 0))}),
    "zeros": Crashed({0: PLAIN, 3: TORN + bytes(4_096)}),
    "first": Crashed({0: b"\0" * 100 + PLAIN, 3: TORN}),
}


def lay_down(data: Path) -> None:
    for name, crashed in CRASHED.items():
        folder = data / f"{name}-0"
        folder.mkdir(parents=True)
        for base_offset, content in crashed.segments.items():
            (folder / f"{base_offset:020}.log").write_bytes(content)
            # Without them Apache mends each segment alone and keeps what follows a torn one.
            (folder / f"{base_offset:020}.index").touch()
            (folder / f"{base_offset:020}.timeindex").touch()
        if crashed.epochs:
            lines = [f"{epoch} {offset}\n" for epoch, offset in crashed.epochs]
            text = f"0\n{len(lines)}\n{''.join(lines)}"
            (folder / "leader-epoch-checkpoint").write_text(text)


def contents_of(data: Path, name: str) -> tuple[dict[str, tuple[int, int]], list[tuple[int, int]]]:
    """Segments, by size and checksum, and leader epochs on disk."""
    folder = data / f"{name}-0"
    checkpoint = folder / "leader-epoch-checkpoint"
    lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
    epochs = [(int(line.split()[0]), int(line.split()[1])) for line in lines]
    contents = {path.name: path.read_bytes() for path in sorted(folder.glob("*.log"))}
    return {name: (len(data), crc32(data)) for name, data in contents.items()}, epochs


def recover_ours(folder: Path) -> None:
    files = SystemFileSystem()
    open_log(
        files,
        str(folder),
        folder.name.removesuffix("-0"),
        0,
        LogConfig(),
        log_start_offset=0,
        recovery_point=0,
        was_clean_shutdown=False,
        now_ms=NOW_MS,
        descriptors=Descriptors(files),
    ).close(NOW_MS)


def test_after_a_crash_both_find_the_same_batches_and_epochs(tmp_path: Path) -> None:
    """Apache knows none of the topics, so that it recovers the logs and leads none of them."""
    lay_down(tmp_path / "data")
    shutil.copytree(tmp_path / "data", tmp_path / "ours")
    with (
        zookeeper(tmp_path / "zookeeper") as coordinator,
        apache_kafka(tmp_path, zookeeper_address=coordinator) as apache,
    ):
        apache.process.kill()
    for name, crashed in CRASHED.items():
        recover_ours(tmp_path / "ours" / f"{name}-0")
        segments, epochs = contents_of(tmp_path / "data", name)
        assert contents_of(tmp_path / "ours", name) == (segments, crashed.ours or epochs), name
