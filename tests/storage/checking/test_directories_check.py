"""Each damage is found and named, and what is said of a start is what a start does."""

from __future__ import annotations

import errno
import struct
from random import Random

import pytest

from odradek.runtime.overlay_files import OverlayFileSystem
from odradek.runtime.testing.memory_files import MemoryFile, MemoryFileSystem
from odradek.storage.checking.directories_check import check_directories, lock_directories
from odradek.storage.checking.findings import (
    BATCH,
    CHECKPOINT,
    EPOCH_FILE,
    IDENTITY,
    INDEX,
    LEADER_EPOCH,
    LEFTOVER,
    OFFSETS,
    SNAPSHOT,
    START,
    TIME_INDEX,
    TOPIC_ID,
    TXN_INDEX,
    Finding,
    Severity,
)
from odradek.storage.checking.trial_start import TrialStart
from odradek.storage.directories.log_directory import DirectoryInUse
from odradek.storage.log_config import LogConfig
from tests.storage.checking.broken_directories import (
    CLEAN_MARK,
    DATA,
    FOLDER,
    NOW_MS,
    Damage,
    check,
    content,
    copy,
    copy_folder,
    cut,
    drop_last_batch,
    extend,
    flip,
    in_place_of,
    remove,
    repeat_last_batch,
    segment_path,
    set_leader_epoch,
    spoil_snapshot,
    stopped_directory,
    write,
)
from tests.support.log_directories import CLUSTER_ID, DATE, Broker

NOTE, REPAIR, DAMAGE = Severity.NOTE, Severity.REPAIR, Severity.DAMAGE
UNIQUE = "0123456789abcdef0123456789abcdef"
RECOVERY_POINTS = "/data/recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "/data/replication-offset-checkpoint"
LOG_STARTS = "/data/log-start-offset-checkpoint"
CLEANER_OFFSETS = "/data/cleaner-offset-checkpoint"
EPOCHS = f"{FOLDER}/leader-epoch-checkpoint"
TOPIC_IDS = f"{FOLDER}/partition.metadata"
META = "/data/meta.properties"

Row = tuple[Damage, str, Severity, str, int | None, str]
"""Damage; kind, severity, path and offset of the finding; words of what a start does."""

AFTER_A_CLEAN_STOP: dict[str, Row] = {
    "flipped record": (flip(segment_path(39), 200), BATCH, DAMAGE, segment_path(39), 39, "leaves"),
    "flipped offset": (flip(segment_path(80), 3), OFFSETS, DAMAGE, segment_path(80), 80, ""),
    "flipped checksum": (
        *(flip(segment_path(158), 17), BATCH, DAMAGE, segment_path(158), 158, "leaves it: reading"),
    ),
    "flipped magic": (flip(segment_path(119), 16), BATCH, DAMAGE, segment_path(119), 119, "leaves"),
    "cut last batch": (
        *(cut(segment_path(158), 5), BATCH, DAMAGE, segment_path(158), 179, "truncated"),
    ),
    "cut closed segment": (
        *(cut(segment_path(39), 5), BATCH, DAMAGE, segment_path(39), 79, "leaves"),
    ),
    "dropped last batch": (drop_last_batch, CHECKPOINT, DAMAGE, HIGH_WATERMARKS, 180, "end of the"),
    "unflushed last batch": (
        *(drop_last_batch, CHECKPOINT, DAMAGE, RECOVERY_POINTS, 180, "goes on at"),
    ),
    "garbage at the end": (
        *(extend(segment_path(158), b"\x07" * 90), BATCH, DAMAGE, segment_path(158), 180),
        "90 of 10963 bytes are truncated",
    ),
    "zeros at the end": (
        *(extend(segment_path(158), bytes(4096)), BATCH, REPAIR, segment_path(158), 180),
        "4096 of 14969 bytes are truncated",
    ),
    "repeated batch": (repeat_last_batch, OFFSETS, DAMAGE, segment_path(158), 179, "leaves"),
    "lost segment": (
        remove(
            *(segment_path(80, suffix) for suffix in (".log", ".index", ".timeindex", ".txnindex"))
        ),
        *(OFFSETS, DAMAGE, segment_path(119), 80, "leaves"),
    ),
    "lost .log file": (
        *(remove(segment_path(80)), LEFTOVER, REPAIR, segment_path(80, ".index"), 80),
        "removed: its segment has no .log file",
    ),
    "lost .log file of the first segment": (
        remove(segment_path(0)),
        *(OFFSETS, DAMAGE, segment_path(0), 0, "the records are lost here"),
    ),
    "negative leader epoch": (
        *(set_leader_epoch(39, 1 << 31), LEADER_EPOCH, DAMAGE, segment_path(39), 79, "leaves it"),
    ),
    "negative leader epoch of the first batch": (
        *(flip(segment_path(0), 12, 0x80), LEADER_EPOCH, DAMAGE, segment_path(0), 0, "leaves it"),
    ),
    "fallen leader epoch": (
        *(set_leader_epoch(158, 1), LEADER_EPOCH, DAMAGE, segment_path(158), 179, "leaves"),
    ),
    "other leader epoch": (set_leader_epoch(158, 9), EPOCH_FILE, DAMAGE, EPOCHS, 179, "leaves"),
    "misleading index": (
        *(flip(segment_path(39, ".index"), 14), INDEX, REPAIR, segment_path(39, ".index"), 39),
        "rebuilds",
    ),
    "misleading offset in index": (
        *(flip(segment_path(39, ".index"), 3), INDEX, REPAIR, segment_path(39, ".index"), 39),
        "rebuilds",
    ),
    "torn index of the active segment": (
        *(cut(segment_path(158, ".index"), 3), INDEX, REPAIR, segment_path(158, ".index"), 158),
        "writes it again",
    ),
    "lost index": (
        *(remove(segment_path(0, ".index")), INDEX, REPAIR, segment_path(0, ".index"), 0),
        "rebuilds",
    ),
    "entry after the end of the log": (
        extend(segment_path(39, ".index"), struct.pack(">ii", 90, 19_000)),
        *(INDEX, REPAIR, segment_path(39, ".index"), 39, "rebuilds"),
    ),
    "misleading time index": (
        flip(segment_path(39, ".timeindex"), 19),
        *(TIME_INDEX, REPAIR, segment_path(39, ".timeindex"), 39, "rebuilds"),
    ),
    "time index without its last entry": (
        cut(segment_path(39, ".timeindex"), 12),
        *(TIME_INDEX, REPAIR, segment_path(39, ".timeindex"), 39, "rebuilds"),
    ),
    "lost time index": (
        remove(segment_path(158, ".timeindex")),
        *(TIME_INDEX, REPAIR, segment_path(158, ".timeindex"), 158, "writes it again"),
    ),
    "flipped transaction index": (
        flip(segment_path(39, ".txnindex"), 9),
        *(TXN_INDEX, DAMAGE, segment_path(39, ".txnindex"), None, "leaves it: consumers with"),
    ),
    "cut transaction index": (
        cut(segment_path(39, ".txnindex"), 9),
        *(TXN_INDEX, REPAIR, segment_path(39, ".txnindex"), None, "rebuilt from the batches"),
    ),
    "lost transaction index": (
        remove(segment_path(39, ".txnindex")),
        *(TXN_INDEX, DAMAGE, segment_path(39, ".txnindex"), None, "leaves it: consumers with"),
    ),
    "transaction that was not aborted": (
        extend(segment_path(158, ".txnindex"), struct.pack(">hqqqq", 0, 5, 177, 178, 179)),
        *(TXN_INDEX, DAMAGE, segment_path(158, ".txnindex"), 178, "leaves it: consumers with"),
    ),
    "flipped snapshot": (
        flip(segment_path(180, ".snapshot"), 30),
        *(SNAPSHOT, REPAIR, segment_path(180, ".snapshot"), 180, "the one before it is used"),
    ),
    "flipped older snapshot": (
        flip(segment_path(80, ".snapshot"), 30),
        *(SNAPSHOT, REPAIR, segment_path(80, ".snapshot"), 80, "leaves it; without"),
    ),
    "snapshot of other batches": (
        spoil_snapshot,
        *(SNAPSHOT, DAMAGE, segment_path(180, ".snapshot"), 180, "may use it"),
    ),
    "lost snapshot": (
        *(remove(segment_path(180, ".snapshot")), SNAPSHOT, REPAIR, FOLDER, 180, "reads the batch"),
    ),
    "snapshot above the end": (
        copy(segment_path(180, ".snapshot"), segment_path(999, ".snapshot")),
        *(SNAPSHOT, REPAIR, segment_path(999, ".snapshot"), 999, "removes it"),
    ),
    "lost epochs": (remove(EPOCHS), EPOCH_FILE, REPAIR, EPOCHS, None, "writes it again"),
    "unreadable epochs": (
        *(write(EPOCHS, b"0\n4\n0 0\n"), EPOCH_FILE, REPAIR, EPOCHS, None, "read from the batches"),
    ),
    "epoch that begins too late": (
        *(write(EPOCHS, b"0\n2\n0 0\n3 150\n"), EPOCH_FILE, DAMAGE, EPOCHS, 48, "leaves it: foll"),
    ),
    "epoch that contradicts the one before": (
        *(write(EPOCHS, b"0\n2\n3 150\n0 0\n"), EPOCH_FILE, DAMAGE, EPOCHS, 48, "leaves it: foll"),
    ),
    "epoch that replaces the one before": (
        lambda files: files.replace(EPOCHS, files.read(EPOCHS).replace(b"0\n4\n", b"0\n5\n5 5\n")),
        *(EPOCH_FILE, REPAIR, EPOCHS, None, "goes by the later lines"),
    ),
    "epoch above the end": (
        lambda files: files.replace(
            EPOCHS, files.read(EPOCHS).replace(b"0\n4\n", b"0\n5\n") + b"7 500\n"
        ),
        *(EPOCH_FILE, REPAIR, EPOCHS, 500, "leaves it out"),
    ),
    "lost topic id": (remove(TOPIC_IDS), TOPIC_ID, REPAIR, TOPIC_IDS, None, "the controller names"),
    "unreadable topic id": (
        *(
            write(TOPIC_IDS, b"version: 9"),
            TOPIC_ID,
            REPAIR,
            TOPIC_IDS,
            None,
            "is not in sync begins empty",
        ),
    ),
    "other topic id": (
        write(f"{DATA}/orders-1/partition.metadata", b"version: 0\ntopic_id: " + b"B" * 22),
        *(TOPIC_ID, DAMAGE, f"{DATA}/orders-1", None, "refuses the replica"),
    ),
    "lost identity": (remove(META), IDENTITY, REPAIR, META, None, "writes it again"),
    "identity of another version": (
        write(META, b"version=2\n"),
        IDENTITY,
        DAMAGE,
        META,
        None,
        "refuses",
    ),
    "lost recovery points": (
        *(remove(RECOVERY_POINTS), CHECKPOINT, REPAIR, RECOVERY_POINTS, None, "all batches are"),
    ),
    "lost high watermarks": (
        *(remove(HIGH_WATERMARKS), CHECKPOINT, REPAIR, HIGH_WATERMARKS, None, "high watermarks st"),
    ),
    "empty high watermarks": (
        *(write(HIGH_WATERMARKS, b""), CHECKPOINT, REPAIR, HIGH_WATERMARKS, None, "high water"),
    ),
    "lost log starts": (remove(LOG_STARTS), CHECKPOINT, REPAIR, LOG_STARTS, None, "logs start at"),
    "unreadable high watermarks": (
        write(HIGH_WATERMARKS, b"0\n9\n"),
        *(CHECKPOINT, REPAIR, HIGH_WATERMARKS, None, "high watermarks start"),
    ),
    "unreadable cleaner offsets": (
        write(CLEANER_OFFSETS, b"x"),
        *(CHECKPOINT, REPAIR, CLEANER_OFFSETS, None, "cleaned from their starts"),
    ),
    "cleaner offset above the end": (
        write(CLEANER_OFFSETS, b"0\n1\norders 0 999\n"),
        *(CHECKPOINT, REPAIR, CLEANER_OFFSETS, 999, "the next cleaning"),
    ),
    "log start above the end": (
        write(LOG_STARTS, b"0\n1\norders 0 999\n"),
        *(CHECKPOINT, DAMAGE, LOG_STARTS, 999, "keeps the batches"),
    ),
    "line without a folder": (
        write(LOG_STARTS, b"0\n1\ngone 0 9\n"),
        *(CHECKPOINT, REPAIR, LOG_STARTS, None, "leaves the line out"),
    ),
    "lost folder": (
        lambda files: files.remove_tree(FOLDER),
        *(CHECKPOINT, DAMAGE, RECOVERY_POINTS, None, "the replica begins empty"),
    ),
    "interrupted cleaning": (
        copy(segment_path(39), segment_path(39, ".log.cleaned")),
        *(LEFTOVER, REPAIR, segment_path(39, ".log.cleaned"), None, "removes it"),
    ),
    "cleaned segment beside its segment": (
        copy(segment_path(39), segment_path(39, ".log.swap")),
        *(LEFTOVER, REPAIR, segment_path(39, ".log.swap"), None, "removed, its segments stay"),
    ),
    "cleaned segment of which nothing is left": (
        write(segment_path(39, ".log.swap"), b""),
        *(LEFTOVER, REPAIR, segment_path(39, ".log.swap"), None, "removed, its segments stay"),
    ),
    "cleaned segment before its place": (
        lambda files: files.rename(segment_path(39), segment_path(39, ".log.swap")),
        *(LEFTOVER, REPAIR, segment_path(39, ".log.swap"), None, "renames it to"),
    ),
    **{
        f"folder with the name of a file{suffix}": (
            in_place_of(segment_path(39, suffix)),
            *(LEFTOVER, severity, segment_path(39, suffix), None, start),
        )
        for suffix, severity, start in (
            (".index", REPAIR, "is renamed to"),
            (".timeindex", REPAIR, "is renamed to"),
            (".txnindex", REPAIR, "is renamed to"),
            (".snapshot", REPAIR, "is renamed to"),
            (".log.swap", NOTE, "leaves it"),
        )
    },
    "folder of a partition that cannot be": (
        copy_folder(FOLDER, f"{DATA}/orders-99999999999999999999"),
        *(LEFTOVER, NOTE, f"{DATA}/orders-99999999999999999999", None, "does not touch it"),
    ),
    "deleted segment": (
        copy(segment_path(39), segment_path(39, ".log.deleted")),
        *(LEFTOVER, NOTE, segment_path(39, ".log.deleted"), None, "removes it"),
    ),
    "file of a replacement": (
        copy(EPOCHS, f"{EPOCHS}.tmp"),
        *(LEFTOVER, NOTE, f"{EPOCHS}.tmp", None, "leaves it"),
    ),
    "unknown file": (
        *(write(f"{FOLDER}/notes", b"x"), LEFTOVER, NOTE, f"{FOLDER}/notes", None, "leaves it"),
    ),
    "unknown folder": (
        *(copy_folder(FOLDER, f"{DATA}/lost+found"), LEFTOVER, NOTE, f"{DATA}/lost+found", None),
        "does not touch it",
    ),
    **{
        f"folder{suffix}": (
            copy_folder(FOLDER, f"{DATA}/payments-3.{UNIQUE}{suffix}"),
            *(LEFTOVER, NOTE, f"{DATA}/payments-3.{UNIQUE}{suffix}", None, start),
        )
        for suffix, start in (
            ("-delete", "removes it"),
            ("-stray", "does not touch it"),
            ("-future", "goes on with it"),
        )
    },
}
AFTER_A_KILL: dict[str, Row] = {
    "lost folder": (
        lambda files: files.remove_tree(FOLDER),
        *(CHECKPOINT, REPAIR, RECOVERY_POINTS, None, "leaves the line out"),
    ),
    "nothing else": (lambda _: None, START, REPAIR, DATA, None, "checks 3 logs"),
    "flipped record below the recovery point": (
        *(flip(segment_path(39), 200), BATCH, DAMAGE, segment_path(39), 39, "leaves"),
    ),
    "flipped record above it": (
        *(flip(segment_path(189), 200), BATCH, DAMAGE, segment_path(189), 189),
        "1 segments with 970 bytes are removed, after a torn one",
    ),
    "unfinished write": (
        *(cut(segment_path(209), 5), BATCH, REPAIR, segment_path(209), 209, "truncated"),
    ),
    "longer length of a batch with others after it": (
        *(flip(segment_path(189), 10, 1), BATCH, DAMAGE, segment_path(189), 189, "truncated"),
    ),
    "longer length of the first of the last batches": (
        *(flip(segment_path(209), 9, 1), BATCH, DAMAGE, segment_path(209), 209, "truncated"),
    ),
    "cut batch below the recovery point": (
        *(cut(segment_path(119), 5), BATCH, DAMAGE, segment_path(119), 157, "leaves it: reading"),
    ),
    "cut batch before the last segment": (
        *(cut(segment_path(189), 5), BATCH, DAMAGE, segment_path(189), 208, "after a torn one"),
    ),
    "preallocated space": (
        *(extend(segment_path(209), bytes(999)), BATCH, REPAIR, segment_path(209), 210),
        "999 of 1969 bytes are truncated",
    ),
    "zeros before the last segment": (
        *(extend(segment_path(189), bytes(12)), BATCH, DAMAGE, segment_path(189), 209),
        "1 segments with 970 bytes are removed, after a torn one",
    ),
    "misleading index": (
        *(flip(segment_path(189, ".index"), 7), INDEX, REPAIR, segment_path(189, ".index"), 189),
        "writes it again",
    ),
    "epoch that the batches do not have": (
        lambda files: files.replace(EPOCHS, b"0\n4\n0 0\n1 48\n2 96\n3 200\n"),
        *(EPOCH_FILE, DAMAGE, EPOCHS, 144, "leaves it: followers"),
    ),
}


@pytest.mark.parametrize("name", AFTER_A_CLEAN_STOP)
def test_damage_after_a_clean_stop_is_found(name: str) -> None:
    files = stopped_directory()
    found_as_named(files, AFTER_A_CLEAN_STOP[name])
    start_does_what_the_trial_did(files)


@pytest.mark.parametrize("name", AFTER_A_KILL)
def test_damage_after_a_kill_is_found(name: str) -> None:
    files = stopped_directory(is_clean=False)
    found_as_named(files, AFTER_A_KILL[name])
    start_does_what_the_trial_did(files)


def found_as_named(files: MemoryFileSystem, row: Row) -> None:
    damage, kind, severity, path, offset, start = row
    damage(files)
    verdict = check(files)
    named = [
        finding for finding in verdict.findings if (finding.kind, finding.path) == (kind, path)
    ]
    assert named, verdict.findings
    if offset is not None:
        assert named[0].offset == offset
    assert named[0].severity == severity, named[0]
    assert start in named[0].start
    if start == "is renamed to":
        assert verdict.severity == REPAIR
    if path.startswith(FOLDER):
        assert named[0].partition == "orders-0"


def start_does_what_the_trial_did(files: MemoryFileSystem) -> None:
    overlay = OverlayFileSystem(files, MemoryFileSystem().open("/spill", create=True))
    trial = TrialStart(overlay)
    trial.run([DATA], lambda _: LogConfig(), now_ms=NOW_MS)
    broker = Broker(files, [DATA], now_ms=NOW_MS)
    if trial.refusal is not None:
        with pytest.raises(Exception, match=r"version '2' is not 0"):
            broker.start()
        return
    expected = content(overlay)
    broker.manager.open_directories()
    broker.manager.claim(broker_id=1, cluster_id=CLUSTER_ID, date=DATE)
    broker.manager.load(lambda _: LogConfig(), now_ms=NOW_MS)
    real = content(files)
    for identity in (expected, real):
        # The trial does not know the broker that a directory without an owner would get.
        identity.pop(META)
        identity.pop(f"{DATA}/.lock", None)
    assert real == expected
    assert broker.events == trial.events


def test_clean_directory_has_no_finding() -> None:
    verdict = check(stopped_directory())
    assert verdict.findings == []
    assert (verdict.amount.logs, verdict.amount.batches) == (3, 165)


@pytest.mark.parametrize("seed", range(40))
def test_any_flipped_byte_in_the_folder_of_a_log_is_found(seed: int) -> None:
    random = Random(seed)
    files = stopped_directory()
    sizes = {name: files.size(f"{FOLDER}/{name}") for name in files.list(FOLDER)}
    name = random.choice([name for name, size in sizes.items() if size])
    position = random.randrange(sizes[name])
    flip(f"{FOLDER}/{name}", position)(files)
    verdict = check(files)
    assert verdict.severity > NOTE, (name, position)
    assert (
        "orders-0" in [finding.partition for finding in verdict.findings]
        or name == "partition.metadata"
    )
    start_does_what_the_trial_did(files)


def test_truncation_is_counted_as_loss() -> None:
    files = stopped_directory(is_clean=False)
    segments = [name for name in files.list(FOLDER) if name.endswith(".log")]
    before = sum(files.size(f"{FOLDER}/{segment}") for segment in segments)
    flip(segment_path(189), 200)(files)
    verdict = check(files)
    start_does_what_the_trial_did(files)
    left = [name for name in files.list(FOLDER) if name.endswith(".log")]
    assert (
        verdict.lost_bytes
        == before - sum(files.size(f"{FOLDER}/{segment}") for segment in left)
        > 970
    )


def test_partition_in_two_directories_is_refused() -> None:
    files = stopped_directory()
    files.make_directory("/more")
    copy_folder(FOLDER, "/more/orders-0")(files)
    copy(CLEAN_MARK, "/more/.kafka_cleanshutdown")(files)
    copy(META, "/more/meta.properties")(files)
    spill = MemoryFileSystem().open("/spill", create=True)
    verdict = check_directories(files, [DATA, "/more"], spill, now_ms=NOW_MS)
    refused = [finding for finding in verdict.findings if finding.severity == DAMAGE]
    assert [(finding.kind, finding.start) for finding in refused] == [(START, "refuses it")]
    assert "orders-0 is in /data/orders-0 and in /more/orders-0" in refused[0].text


class DamagedDisk(MemoryFileSystem):
    """A segment on it can no longer be read."""

    is_damaged = False

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if self.is_damaged and path == segment_path(80):
            raise OSError(errno.EIO, "Input/output error", path)
        return super().open(path, create=create)


def test_file_that_cannot_be_read_is_damage_and_the_others_are_checked() -> None:
    files = DamagedDisk(folders=(DATA,))
    stopped_directory(files)
    files.is_damaged = True
    verdict = check_directories(
        files, [DATA], MemoryFileSystem().open("/spill", create=True), now_ms=NOW_MS
    )
    worst: list[Finding] = [finding for finding in verdict.findings if finding.severity == DAMAGE]
    assert worst[0].kind == BATCH
    assert "cannot be read" in worst[0].text
    assert verdict.amount.logs == 3


def test_directory_of_a_running_broker_is_refused() -> None:
    files = stopped_directory()
    broker = Broker(files, [DATA], now_ms=NOW_MS).start()
    with pytest.raises(DirectoryInUse, match="/data is in use"):
        lock_directories(files, [DATA])
    broker.stop()
    locks = lock_directories(files, [DATA])
    assert len(locks) == 1
    with pytest.raises(DirectoryInUse):
        Broker(files, [DATA], now_ms=NOW_MS).start()
