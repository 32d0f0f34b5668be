"""Partition folders, looked at without a broker."""

from __future__ import annotations

import pytest

from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.storage.checkpoints.partition_metadata import PARTITION_METADATA_FILE
from odradek.storage.directories.folder_survey import FoundPartition, Survey, survey
from tests.support.log_directories import TOPIC_ID, Broker, append

FOLDER = "/a/orders-0"


@pytest.fixture
def files() -> MemoryFileSystem:
    """One log of three records."""
    files = MemoryFileSystem(folders=("/a",))
    broker = Broker(files, ["/a"]).start()
    append(broker.create("orders"), 3)
    return files


def only(result: Survey) -> FoundPartition:
    (partition,) = result.partitions
    return partition


def write(files: MemoryFileSystem, path: str, data: bytes) -> None:
    file = files.open(path, create=True)
    file.truncate(0)
    file.append((data,))
    file.close()


def test_survey_finds_the_id_and_the_size_of_a_partition(files: MemoryFileSystem) -> None:
    result = survey(files, ["/a"])
    assert result.problems == []
    assert only(result).topic_id == TOPIC_ID
    assert only(result).size_bytes > 0


def test_survey_finds_a_partition_whose_creation_a_crash_has_interrupted(
    files: MemoryFileSystem,
) -> None:
    for name in files.list(FOLDER):
        if name != PARTITION_METADATA_FILE:
            files.remove(f"{FOLDER}/{name}")
    result = survey(files, ["/a"])
    assert result.problems == []
    assert only(result) == FoundPartition("orders", 0, FOLDER, TOPIC_ID, -1, -1, 0)


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b"version: 1\ntopic_id: x", b"\xff"])
def test_survey_finds_a_partition_without_a_readable_topic_id(
    files: MemoryFileSystem, content: bytes
) -> None:
    write(files, f"{FOLDER}/{PARTITION_METADATA_FILE}", content)
    result = survey(files, ["/a"])
    assert only(result).topic_id is None
    (problem,) = result.problems
    assert problem.startswith(f"{FOLDER} takes the id of its topic from the metadata")


def test_survey_leaves_out_folders_that_are_no_partitions(files: MemoryFileSystem) -> None:
    files.make_directory("/a/empty-0")
    files.make_directory("/a/backup-1")
    write(files, "/a/backup-1/notes.txt", b"x")
    files.make_directory("/a/backup-20261125")
    write(files, "/a/backup-20261125/00000000000000000000.log", b"")
    result = survey(files, ["/a"])
    assert only(result).topic == "orders"
    assert sorted(result.problems) == [
        f"/a/{name} is left out: it is not the folder of a partition"
        for name in ("backup-1", "backup-20261125", "empty-0")
    ]
