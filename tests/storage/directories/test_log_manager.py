"""All logs of a broker: start, creation, deletion, offline directories, clean shutdown."""

from __future__ import annotations

import errno
from uuid import UUID

import pytest

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.storage.checkpoints.meta_properties import MetaPropertiesError
from odradek.storage.directories.deletion import LogDeletion
from odradek.storage.directories.disk_jobs import SyncNewFolders
from odradek.storage.directories.log_directory import DirectoryInUse
from odradek.storage.directories.log_manager import DirectoryFailure, DuplicateLog, NoDirectoryLeft
from odradek.storage.events import StorageEvent
from odradek.storage.log_config import LogConfig
from tests.support.log_directories import CLUSTER_ID, DATE, TOPIC_ID, UNIQUE, Broker, append

DELAY_MS = 60_000
DELETED_FOLDER = f"/a/orders-0.{UNIQUE}-delete"


def memory() -> MemoryFileSystem:
    return MemoryFileSystem(folders=("/a", "/b"))


def failing(files: MemoryFileSystem, n: int = 1) -> None:
    files.fail_operation(n, OSError(errno.EIO, "the disk is broken"))


# Start.


def test_new_directories_are_made_locked_and_marked() -> None:
    files = MemoryFileSystem(folders=("/data",))
    Broker(files, ["/data/one", "/data/two"]).start()
    for path in ("/data/one", "/data/two"):
        assert files.list(path) == [".lock", "meta.properties"]
        assert files.read(f"{path}/meta.properties") == (
            f"#\n#{DATE}\nbroker.id=1\nversion=0\ncluster.id={CLUSTER_ID}\n".encode()
        )


def test_second_broker_is_kept_out_and_the_first_one_keeps_its_locks() -> None:
    files = memory()
    first = Broker(files, ["/b"]).start()
    with pytest.raises(DirectoryInUse, match="/b is in use"):
        Broker(files, ["/a", "/b"]).start()
    first.stop()
    Broker(files, ["/a", "/b"]).start()


def test_directory_of_another_broker_is_refused_before_anything_is_written() -> None:
    files = memory()
    data = f"version=0\nbroker.id=2\ncluster.id={CLUSTER_ID}\n".encode()
    files.replace("/b/meta.properties", data)
    with pytest.raises(MetaPropertiesError, match=r"/b/meta\.properties belongs to broker 2"):
        Broker(files, ["/a", "/b"]).start()
    assert files.list("/a") == [".lock"]


def test_cluster_id_is_added_to_an_old_meta_properties() -> None:
    files = memory()
    files.replace("/a/meta.properties", b"version=0\nbroker.id=1\n")
    Broker(files, ["/a"]).start()
    assert CLUSTER_ID.encode() in files.read("/a/meta.properties")


def test_logs_come_back_after_a_clean_stop() -> None:
    files = memory()
    broker = Broker(files, ["/a", "/b"]).start()
    append(broker.create("orders", 0), 5)
    append(broker.create("orders", 1), 7)
    broker.stop({("orders", 0): 4})
    for path in ("/a", "/b"):
        assert files.read(f"{path}/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'

    again = Broker(files, ["/a", "/b"]).start()
    assert [contents.was_clean_shutdown for contents in again.report] == [True, True]
    assert [(log.partition, log.end_offset) for log in again.manager.all()] == [(0, 5), (1, 7)]
    assert [log.high_watermark for log in again.manager.all()] == [4, 0]
    assert again.manager.topic_id("orders", 1) == TOPIC_ID
    assert not files.exists("/a/.kafka_cleanshutdown")
    assert not files.exists("/b/.kafka_cleanshutdown")


def test_stop_without_shutdown_is_not_clean() -> None:
    files = memory()
    broker = Broker(files, ["/a"]).start()
    log = broker.create("orders")
    append(log, 5)
    broker.flush(log)
    files.crash(SeededRandomness(1))
    again = Broker(files, ["/a"]).start()
    assert [contents.was_clean_shutdown for contents in again.report] == [False]
    assert again.manager.all()[0].end_offset == 5


def test_folders_that_are_no_logs_are_reported_and_left() -> None:
    files = memory()
    strange = ("lost+found", "orders", "orders-01", "orders-0.x-gone", "-0")
    for name in (*strange, "__cluster_metadata-0", f"orders-3.{UNIQUE}-stray"):
        files.make_directory(f"/a/{name}")
    broker = Broker(files, ["/a"]).start()
    assert broker.report[0].unknown == sorted(f"/a/{name}" for name in strange)
    assert broker.report[0].stray == [f"/a/orders-3.{UNIQUE}-stray"]
    assert broker.manager.all() == []
    broker.stop()
    assert set(strange) < set(files.list("/a"))


def test_copy_on_its_way_is_loaded_beside_its_log() -> None:
    files = memory()
    broker = Broker(files, ["/a", "/b"]).start()
    append(broker.create("orders", 0), 5)
    append(broker.create("orders", 1), 2)
    broker.stop()
    files.rename("/b/orders-1", f"/b/orders-0.{UNIQUE}-future")
    again = Broker(files, ["/a", "/b"]).start()
    future = again.manager.directories["/b"].future_logs.get(("orders", 0))
    assert future is not None
    assert future.end_offset == 2
    assert len(again.manager.all()) == 2


def test_partition_in_two_directories_stops_the_start() -> None:
    files = memory()
    broker = Broker(files, ["/a", "/b"]).start()
    broker.create("orders", 0)
    broker.create("orders", 1)
    broker.stop()
    files.rename("/b/orders-1", "/b/orders-0")
    with pytest.raises(DuplicateLog, match="/a/orders-0 and in /b/orders-0"):
        Broker(files, ["/a", "/b"]).start()


# Creation.


def test_new_log_is_created_in_the_directory_with_the_fewest_logs() -> None:
    broker = Broker(memory(), ["/a", "/b"]).start()
    places = [broker.create("orders", n).directory for n in range(4)]
    assert places == ["/a/orders-0", "/b/orders-1", "/a/orders-2", "/b/orders-3"]
    broker.delete(("orders", 0), ("orders", 2))
    assert broker.create("orders", 4).directory == "/a/orders-4"


def test_log_is_made_once_and_keeps_its_topic_id() -> None:
    files = memory()
    broker = Broker(files, ["/a"]).start()
    log = broker.create("orders", topic_id=None)
    assert broker.manager.topic_id("orders", 0) is None
    assert not files.exists("/a/orders-0/partition.metadata")
    assert broker.create("orders") is log
    assert files.read("/a/orders-0/partition.metadata") == (
        b"version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w"
    )
    with pytest.raises(BrokerError) as raised:
        broker.create("orders", topic_id=UUID(int=7))
    assert raised.value.code is ErrorCode.INCONSISTENT_TOPIC_ID


def test_log_that_may_be_in_an_offline_directory_is_not_created() -> None:
    files = memory()
    broker = Broker(files, ["/a", "/b"]).start()
    broker.manager.take_offline(broker.manager.directories["/b"], OSError("gone"))
    with pytest.raises(BrokerError) as raised:
        broker.create("orders", is_new=False)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.create("orders", is_new=True).directory == "/a/orders-0"


def test_empty_log_in_place_of_a_missing_one_is_reported() -> None:
    files = memory()
    events: list[StorageEvent] = []
    broker = Broker(files, ["/a"]).start()
    broker.manager.descriptors.report = events.append
    broker.create("new", is_new=True)
    assert events == []
    broker.create("orders", is_new=False)
    (event,) = events
    assert event.place == "/a/orders-0"
    assert event.is_warning
    assert event.text.startswith("created empty: the replica is not new, and has no folder in /a")


def test_directory_that_cannot_make_a_folder_is_passed_over() -> None:
    files = memory()
    broker = Broker(files, ["/a", "/b"]).start()
    failing(files)
    assert broker.create("orders").directory == "/b/orders-0"
    (failure,) = broker.manager.take_failures()
    assert failure.path == "/a"
    assert "the disk is broken" in failure.reason
    assert failure.partitions == ()
    assert broker.manager.take_failures() == []


@pytest.mark.parametrize("n", range(2, 9))
def test_log_that_could_not_be_created_leaves_no_folder(n: int) -> None:
    files = memory()
    broker = Broker(files, ["/a", "/b"]).start()
    failing(files, n)
    with pytest.raises(BrokerError) as raised:
        broker.create("orders")
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.create("orders").directory == "/b/orders-0"
    broker.stop()
    assert "orders-0" not in files.list("/a")
    assert len(Broker(files, ["/a", "/b"]).start().manager.all()) == 1


# Durability of new folders.


@pytest.mark.parametrize("seed", range(20))
def test_synced_folder_of_a_new_log_is_there_after_a_power_cut(seed: int) -> None:
    files = memory()
    broker = Broker(files, ["/a"]).start()
    broker.create("orders", is_synced=False)
    broker.perform(broker.manager.sync_new_folders())
    files.crash(SeededRandomness(seed))
    restarted = Broker(files, ["/a"]).start()
    assert restarted.manager.topic_id("orders", 0) == TOPIC_ID


@pytest.mark.parametrize("seed", range(20))
def test_flushed_log_is_there_after_a_power_cut_before_its_folder_was_synced(seed: int) -> None:
    files = memory()
    broker = Broker(files, ["/a"]).start()
    log = broker.create("orders", is_synced=False)
    append(log, 3)
    broker.flush(log)
    files.crash(SeededRandomness(seed))
    restarted = Broker(files, ["/a"]).start()
    loaded_log = restarted.manager.get("orders", 0)
    assert loaded_log is not None
    assert loaded_log.end_offset == 3
    assert restarted.manager.topic_id("orders", 0) == TOPIC_ID


@pytest.mark.parametrize("seed", range(20))
def test_power_cut_before_a_new_folder_was_synced_leaves_a_directory_that_loads(seed: int) -> None:
    files = memory()
    broker = Broker(files, ["/a"]).start()
    append(broker.create("orders", is_synced=False), 3)
    files.crash(SeededRandomness(seed))
    restarted = Broker(files, ["/a"]).start()
    restarted.create("orders", is_new=False)
    assert restarted.manager.topic_id("orders", 0) == TOPIC_ID


def test_folders_that_found_no_descriptor_are_synced_by_the_next_checkpoint() -> None:
    broker = Broker(memory(), ["/a"]).start()
    broker.create("orders", is_synced=False)
    (job,) = broker.manager.sync_new_folders()
    assert broker.manager.sync_new_folders() == []
    broker.upkeep.on_failed(job, OSError(errno.EMFILE, "too many open files"))
    again = broker.upkeep.checkpoint()[0]
    assert isinstance(again, SyncNewFolders)
    assert again.folders == job.folders


def test_folder_that_was_made_again_while_the_former_one_was_synced_is_synced_as_well() -> None:
    broker = Broker(memory(), ["/a"]).start()
    broker.create("orders", is_synced=False)
    (job,) = broker.manager.sync_new_folders()
    broker.delete(("orders", 0))
    broker.create("orders", is_synced=False)
    broker.perform([job])
    (again,) = broker.manager.sync_new_folders()
    assert again.folders == job.folders


# Deletion.


def test_deleted_log_is_renamed_and_removed_after_the_delay() -> None:
    files = memory()
    broker = Broker(files, ["/a"]).start()
    append(broker.create("orders"))
    broker.delete(("orders", 0), now_ms=1_000)
    assert broker.manager.get("orders", 0) is None
    assert files.is_directory(DELETED_FOLDER)
    assert not files.exists("/a/orders-0")
    assert broker.upkeep.remove(now_ms=1_000 + DELAY_MS - 1) == []
    broker.perform(broker.upkeep.remove(now_ms=1_000 + DELAY_MS))
    assert not files.exists(DELETED_FOLDER)
    assert broker.upkeep.remove(now_ms=10**15) == []


def test_leftovers_of_a_deletion_are_removed_after_a_restart() -> None:
    files = memory()
    broker = Broker(files, ["/a"]).start()
    broker.create("orders")
    broker.delete(("orders", 0))
    broker.stop()
    again = Broker(files, ["/a"], now_ms=5_000).start()
    assert again.report[0].deleted == [DELETED_FOLDER]
    assert again.manager.all() == []
    again.perform(again.upkeep.remove(now_ms=5_000 + DELAY_MS))
    assert not files.exists(DELETED_FOLDER)


def test_checkpoints_do_not_name_a_deleted_log() -> None:
    files = memory()
    broker = Broker(files, ["/a"]).start()
    for topic in ("orders", "payments"):
        append(broker.create(topic), 3)
    broker.flush(*broker.manager.all())
    broker.perform(broker.upkeep.checkpoint())
    assert b"orders 0 2" in files.read("/a/recovery-point-offset-checkpoint")
    broker.delete(("orders", 0))
    assert b"orders" not in files.read("/a/recovery-point-offset-checkpoint")
    assert b"payments 0 2" in files.read("/a/recovery-point-offset-checkpoint")


@pytest.mark.parametrize("is_restarted", [False, True])
def test_log_created_again_inherits_nothing_from_the_deleted_one(is_restarted: bool) -> None:
    files = memory()
    broker = Broker(files, ["/a"]).start()
    append(broker.create("orders"), 9)
    broker.flush(*broker.manager.all())
    broker.perform(broker.upkeep.checkpoint())
    broker.create("orders").advance_high_watermark(8)
    broker.perform(broker.upkeep.checkpoint_high_watermarks())
    deletion = LogDeletion(broker.manager, unique=UNIQUE, now_ms=0)
    deletion.remove(("orders", 0))
    (job,) = deletion.sync(lambda: None)
    if is_restarted:
        job.run(files)
        files.crash(SeededRandomness(3))
        broker = Broker(files, ["/a"]).start()
    again = broker.create("orders", topic_id=UUID(int=5))
    append(again, 1)
    if not is_restarted:
        broker.perform([job])
    assert again.high_watermark == 0
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert b" 8\n" not in files.read(f"/a/{name}")


def test_deleting_what_is_not_here_is_fine_unless_a_directory_is_offline() -> None:
    broker = Broker(memory(), ["/a", "/b"]).start()
    assert broker.delete(("orders", 0)) == []
    broker.create("orders", 0)
    broker.create("orders", 1)
    broker.manager.take_offline(broker.manager.directories["/b"], OSError("gone"))
    assert broker.delete(("orders", 0), ("orders", 1)) == [("orders", 1)]
    assert broker.manager.all() == []


# Directories that fail.


def test_failed_directory_takes_its_logs_offline_and_the_others_stay_online() -> None:
    files = memory()
    broker = Broker(files, ["/a", "/b"]).start()
    lost, kept = broker.create("orders", 0), broker.create("orders", 1)
    broker.manager.take_offline(broker.manager.directory_of(lost), OSError("the disk is broken"))
    assert broker.manager.take_failures() == [
        DirectoryFailure("/a", "the disk is broken", (("orders", 0),))
    ]
    assert broker.manager.all() == [kept]
    assert lost.is_offline
    assert broker.manager.offline_directories == ("/a",)
    append(kept)
    broker.manager.take_offline(broker.manager.directories["/a"], OSError("once more"))
    assert broker.manager.take_failures() == []
    broker.stop()
    assert not files.exists("/a/.kafka_cleanshutdown")
    assert files.exists("/b/.kafka_cleanshutdown")


def test_when_the_last_directory_fails_the_broker_must_stop() -> None:
    broker = Broker(memory(), ["/a", "/b"]).start()
    broker.manager.take_offline(broker.manager.directories["/a"], OSError("first"))
    with pytest.raises(NoDirectoryLeft, match="/b: second"):
        broker.manager.take_offline(broker.manager.directories["/b"], OSError("second"))
    broker.stop()


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        "orders-0/partition.metadata",
    ],
)
@pytest.mark.parametrize("was_clean", [True, False])
def test_damaged_file_is_reported_and_costs_no_record(name: str, was_clean: bool) -> None:
    files = memory()
    broker = Broker(files, ["/a", "/b"]).start()
    for n in range(4):
        append(broker.create("orders", n))
    broker.stop({("orders", n): 1 for n in range(4)})
    files.replace(f"/a/{name}", b"0\n9\n")
    if not was_clean:
        files.remove("/a/.kafka_cleanshutdown")
    again = Broker(files, ["/a", "/b"]).start()
    assert again.manager.offline_directories == ()
    assert [log.end_offset for log in again.manager.all()] == [1] * 4
    assert [event.place for event in again.events if "expected" in event.text or "9" in event.text]
    assert f"/a/{name}".startswith(again.events[0].place)
    assert again.manager.topic_id("orders", 2) == TOPIC_ID
    assert again.create("orders", 0).end_offset == 1
    assert again.manager.topic_id("orders", 0) == TOPIC_ID
    again.perform(again.upkeep.checkpoint())
    again.stop({("orders", n): 1 for n in range(4)})
    third = Broker(files, ["/a", "/b"]).start()
    assert third.events == []
    assert [log.high_watermark for log in third.manager.all()] == [1] * 4


def test_empty_checkpoint_is_not_damaged() -> None:
    files = memory()
    Broker(files, ["/a"]).start().stop()
    for name in ("recovery-point", "replication", "log-start", "cleaner"):
        files.replace(f"/a/{name}-offset-checkpoint", b"")
    files.replace("/a/replication-offset-checkpoint", b"")
    assert Broker(files, ["/a"]).start().manager.offline_directories == ()


def test_directory_that_cannot_be_opened_is_offline_from_the_start() -> None:
    files = memory()
    files.replace("/file", b"not a folder")
    broker = Broker(files, ["/file", "/a"]).start()
    assert broker.manager.offline_directories == ("/file",)
    assert broker.create("orders").directory == "/a/orders-0"
    with pytest.raises(NoDirectoryLeft):
        Broker(files, ["/file"]).start()


# Shutdown.


def test_high_watermarks_of_logs_not_taken_up_yet_are_kept() -> None:
    files = memory()
    broker = Broker(files, ["/a"]).start()
    for n in range(2):
        append(broker.create("orders", n), 9)
    broker.stop({("orders", 0): 5, ("orders", 1): 6})
    again = Broker(files, ["/a"]).start()
    again.manager.all()[0].advance_high_watermark(8)
    again.perform(again.upkeep.checkpoint_high_watermarks())
    assert files.read("/a/replication-offset-checkpoint") == (b"0\n2\norders 0 8\norders 1 6\n")


def test_shutdown_that_fails_is_not_clean_and_frees_the_locks() -> None:
    files = memory()
    broker = Broker(files, ["/a", "/b"]).start()
    for n in range(2):
        append(broker.create("orders", n))
    failing(files, 2)
    broker.stop()
    assert not files.exists("/a/.kafka_cleanshutdown")
    assert files.exists("/b/.kafka_cleanshutdown")
    assert [log.end_offset for log in Broker(files, ["/a", "/b"]).start().manager.all()] == [1, 1]


def test_directory_not_wholly_loaded_keeps_its_checkpoints_and_its_mark() -> None:
    files = memory()
    broker = Broker(files, ["/a"]).start()
    for n in range(2):
        append(broker.create("orders", n), 3)
    broker.stop({("orders", 0): 3, ("orders", 1): 3})
    checkpoint = files.read("/a/recovery-point-offset-checkpoint")

    def config_of(topic: str) -> LogConfig:
        raise RuntimeError("no configuration can be had")

    for was_clean in (True, False):
        if not was_clean:
            files.remove("/a/.kafka_cleanshutdown")
        half_started = Broker(files, ["/a"])
        with pytest.raises(RuntimeError):
            half_started.start(config_of)
        half_started.stop()
        assert files.exists("/a/.kafka_cleanshutdown") == was_clean
        assert files.read("/a/recovery-point-offset-checkpoint") == checkpoint
    assert [log.high_watermark for log in Broker(files, ["/a"]).start().manager.all()] == [3, 3]


def test_log_that_ends_below_its_high_watermark_is_reported_at_the_start() -> None:
    files = MemoryFileSystem(folders=("/a",))
    broker = Broker(files, ["/a"]).start()
    append(broker.create("orders"), 3)
    for directory in broker.manager.directories.values():
        directory.release()
    checkpoint = files.open("/a/replication-offset-checkpoint", create=True)
    checkpoint.truncate(0)
    checkpoint.append((b"0\n1\norders 0 40\n",))
    checkpoint.close()
    again = Broker(files, ["/a"]).start()
    (event,) = [event for event in again.events if "below its high watermark 40" in event.text]
    assert event.place == "/a/orders-0"
    assert event.is_warning
