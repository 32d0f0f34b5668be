"""The protocols by which the files of a log change; each seed plays them with other sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from odradek.protocol.records.batch import iterate_batches
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.storage.directories.deletion import LogDeletion
from tests.cuts.checks import Stored, check_start
from tests.cuts.promises import Content
from tests.cuts.scene import ALL, ORDERS, Recorder, Scene
from tests.storage.compaction.cleaning import job_of, run_job
from tests.support.log_directories import UNIQUE
from tests.support.logs import NOW_MS, read_all


@dataclass(frozen=True)
class Played:
    """A protocol that was played once, with its cuts."""

    recorder: Recorder
    check: Callable[[MemoryFileSystem, Any, bool], None]
    """(files after a cut, what was promised, whether thorough): starts on them and checks."""


Play = Callable[[int, Iterable[int]], Played]
"""(seed, numbers of the operations before which to cut)."""
LOG_PROTOCOLS: Final[dict[str, Play]] = {}


def protocol(
    name: str, *, folders: tuple[str, ...] = ("/a",), is_compacted: bool = False
) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """A decorator that registers what a scene does."""

    def register(act: Callable[[Scene], None]) -> Callable[[Scene], None]:
        def play(seed: int, cut_numbers: Iterable[int] = ALL) -> Played:
            scene = Scene(seed, cut_numbers, folders=folders, is_compacted=is_compacted)
            act(scene)
            scene.recorder.end()

            def check(files: MemoryFileSystem, promises: Any, is_thorough: bool) -> None:
                stored = Stored(files, scene.folders, scene.config_after)
                check_start(stored, promises, is_thorough=is_thorough)

            return Played(scene.recorder, check)

        LOG_PROTOCOLS[name] = play
        return act

    return register


def _filled(scene: Scene, count: int) -> None:
    """A log with some batches, of which the first are durable, before anything is recorded."""
    scene.create(ORDERS)
    scene.append(count=count)
    if scene.rng.random() < 0.7:
        scene.flush()
    if scene.rng.random() < 0.5:
        scene.replicate()
        scene.checkpoint()
    if scene.rng.random() < 0.3:
        scene.stop()
        scene.broker = scene.started()
    scene.append(count=scene.rng.randrange(3))


@protocol("append")
def append(scene: Scene) -> None:
    """Batches of all kinds, flushed now and then while others are appended."""
    scene.config = replace(scene.config, segment_bytes=4_000)
    _filled(scene, 3)
    scene.recorder.begin()
    for _ in range(4):
        scene.append(count=scene.rng.randint(1, 4))
        scene.flush(meanwhile=scene.rng.randrange(3))
    scene.replicate(offset=scene.somewhere())
    scene.checkpoint()
    scene.append(count=2)


@protocol("roll")
def roll(scene: Scene) -> None:
    """Full segments, full indexes, other settings, and rolls that are asked for."""
    _filled(scene, 3)
    scene.recorder.begin()
    for _ in range(3):
        scene.append(count=scene.rng.randint(3, 6))
        if scene.rng.random() < 0.5:
            scene.log().roll(now_ms=NOW_MS)
        if scene.rng.random() < 0.3:
            scene.log().config = replace(scene.config, segment_bytes=500)
        if scene.rng.random() < 0.7:
            scene.flush(meanwhile=scene.rng.randrange(4))
        if scene.rng.random() < 0.5:
            scene.checkpoint()
    scene.log().roll(now_ms=NOW_MS)
    scene.flush()
    scene.checkpoint()
    scene.append(count=2)


@protocol("retention")
def retention(scene: Scene) -> None:
    """Deleted by size, by age and by DeleteRecords; the files are removed later."""
    _filled(scene, 12)
    scene.recorder.begin()
    for _ in range(2):
        scene.append(count=4)
        scene.replicate()
        kind = scene.rng.choice(["size", "age", "records"])
        if kind == "records":
            scene.delete_records(scene.somewhere())
        scene.log().config = replace(
            scene.config,
            retention_bytes=600 if kind == "size" else -1,
            retention_ms=1_000 if kind == "age" and scene.rng.random() < 0.3 else -1,
        )
        scene.retain()
        if scene.rng.random() < 0.6:
            scene.flush(meanwhile=1)
        if scene.rng.random() < 0.7:
            scene.checkpoint()
        scene.remove()
    scene.checkpoint()


@protocol("truncation")
def truncation(scene: Scene) -> None:
    """A follower drops its end, or all of it, and goes on in another epoch."""
    _filled(scene, 8)
    scene.recorder.begin()
    scene.checkpoint()
    for _ in range(2):
        promise = scene.promises[ORDERS]
        if scene.rng.random() < 0.2:
            scene.truncate_fully(promise.end_offset + scene.rng.randrange(4))
        elif promise.batches:
            first = max(promise.log_start + 1, scene.log().segments.base_offsets[0] + 1)
            if first < promise.end_offset:
                scene.truncate(scene.rng.randrange(first, promise.end_offset))
        scene.leader_epoch += 1
        scene.append(count=scene.rng.randint(1, 6))
        if scene.rng.random() < 0.7:
            scene.flush(meanwhile=1)
        if scene.rng.random() < 0.5:
            scene.checkpoint()
        scene.remove()


@protocol("compaction swap", is_compacted=True)
def compaction_swap(scene: Scene) -> None:
    """A cleaning: the worker's files, the swap of each group, the checkpoint."""
    _filled(scene, 16)
    scene.recorder.begin()
    for _ in range(2):
        scene.append(count=5)
        if scene.rng.random() < 0.5:
            scene.flush()
        _clean(scene)
        if scene.rng.random() < 0.5:
            scene.remove()
    scene.flush()
    scene.checkpoint()


def _clean(scene: Scene) -> None:
    log, promise, upkeep = scene.log(), scene.promises[ORDERS], scene.broker.upkeep
    directory = scene.broker.manager.directory_of(log)
    job = job_of(log, now_ms=NOW_MS + scene.rng.choice([0, 5_000]))
    if not job.base_offsets:
        return
    result = run_job(scene.files, job)
    # What the cleaning has written is known before any of it takes its place.
    promise.former.append(Content(tuple(_cleaned_batches(scene, job.base_offsets)), 0))
    for group in result.groups:
        removed = log.replace_segments(
            [group], truncation_count=job.truncation_count, now_ms=NOW_MS
        )
        assert removed is not None, "the log has not changed meanwhile"
        upkeep.set_aside(log, removed)
    directory.note_cleaned(log, result.end_offset)
    scene.perform(directory.checkpoint_cleaner_offsets())
    promise.cleaned = [
        bytes(batch.view)
        for batch in iterate_batches(memoryview(read_all(log)))
        if batch.last_offset < result.end_offset
    ]


def _cleaned_batches(scene: Scene, base_offsets: tuple[int, ...]) -> list[bytes]:
    folder = scene.log().directory
    batches: list[bytes] = []
    for base in base_offsets:
        path = f"{folder}/{base:020d}.log.cleaned"
        if scene.files.exists(path):
            data = memoryview(scene.files.read(path))
            batches += [bytes(batch.view) for batch in iterate_batches(data)]
    return batches


@protocol("checkpoint", folders=("/a", "/b"))
def checkpoint(scene: Scene) -> None:
    """Recovery points, log starts and high watermarks of several logs, one of which is deleted."""
    others = (("orders", 1), ("returns", 0), ("returns", 1))
    scene.create(ORDERS, *others)
    for key in (ORDERS, *others):
        scene.append(key, 4)
    scene.recorder.begin()
    for number in range(3):
        for key in (ORDERS, *others[: 3 - (number > 0)]):
            scene.append(key, scene.rng.randint(0, 3))
            scene.replicate(key, scene.somewhere(key))
            if scene.rng.random() < 0.5:
                scene.flush(key, meanwhile=1)
            if scene.rng.random() < 0.4:
                scene.delete_records(scene.somewhere(key), key)
        scene.checkpoint()
        if number == 0:
            delete(scene, others[2])
    scene.remove()


def delete(scene: Scene, key: tuple[str, int]) -> None:
    """Delete a log."""
    promise = scene.promises[key]
    promise.must_exist = False
    deletion = LogDeletion(scene.broker.manager, unique=UNIQUE, now_ms=NOW_MS)
    deletion.remove(key)

    def acknowledge() -> None:
        promise.is_deleted = True

    scene.perform(deletion.sync(acknowledge))


@protocol("clean stop", folders=("/a", "/b"))
def clean_stop(scene: Scene) -> None:
    """Stops and starts, with and without appends between them."""
    scene.create(ORDERS, ("returns", 0))
    scene.append(count=6)
    scene.append(("returns", 0), 3)
    scene.recorder.begin()
    scene.stop()
    scene.broker = scene.started()
    scene.append(count=scene.rng.randrange(4))
    if scene.rng.random() < 0.5:
        scene.lead()
    if scene.rng.random() < 0.5:
        scene.flush()
    scene.replicate(offset=scene.somewhere())
    scene.stop()
    scene.broker = scene.started()
    scene.stop()


@protocol("producer snapshot")
def producer_snapshot(scene: Scene) -> None:
    """Snapshots at rolls and stops, which retention and truncations take away again."""
    _filled(scene, 6)
    scene.recorder.begin()
    for _ in range(2):
        scene.append(count=scene.rng.randint(3, 6))
        scene.log().roll(now_ms=NOW_MS)
        scene.flush(meanwhile=2)
        scene.checkpoint()
        promise = scene.promises[ORDERS]
        if scene.rng.random() < 0.5:
            scene.truncate(scene.rng.randrange(promise.log_start + 1, promise.end_offset))
            scene.leader_epoch += 1
            scene.append(count=1)
        elif scene.rng.random() < 0.5:
            scene.delete_records(scene.somewhere())
            scene.retain()
            scene.remove()
    scene.stop()
    scene.broker = scene.started()
    scene.append(count=2)
    scene.flush()


@protocol("epoch file")
def epoch_file(scene: Scene) -> None:
    """Epochs with and without batches; the ends of the file go with those of the log."""
    _filled(scene, 3)
    scene.recorder.begin()
    for _ in range(4):
        scene.lead()
        scene.append(count=scene.rng.randrange(4))
        act = scene.rng.choice(["flush", "delete", "truncate", "checkpoint"])
        promise = scene.promises[ORDERS]
        if act == "delete":
            scene.delete_records(scene.somewhere())
        elif act == "truncate" and promise.log_start + 1 < promise.end_offset:
            scene.truncate(scene.rng.randrange(promise.log_start + 1, promise.end_offset))
            scene.leader_epoch += 1
        elif act == "checkpoint":
            scene.checkpoint()
        scene.flush(meanwhile=1)
    scene.lead()
    scene.checkpoint()
