"""Group commit: nothing is visible before it is durable, and everything in one order."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from odradek.controller.coordination.embedded import EmbeddedSession, EmbeddedTree
from odradek.controller.coordination.errors import CoordinationError, NodeExists, StorageFailed
from odradek.controller.coordination.session import Create, SessionEvent, SetData
from odradek.runtime.pending import Pending
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.runtime.testing.virtual_clock import VirtualClock
from tests.support.threads import HeldThreads

FOLDER = "/data"


class Scene:
    """A tree whose threads are held, two sessions, and the results and events that they got."""

    def __init__(self, *, entries_max: int = 1_000) -> None:
        self.files = MemoryFileSystem(folders=[FOLDER])
        self.threads = HeldThreads()
        self.failures: list[str] = []
        self.warnings: list[str] = []
        self.seen: list[Any] = []
        self.tree = EmbeddedTree(
            self.files, FOLDER, VirtualClock(), journal_entries_max=entries_max
        )
        self.first = self.tree.connect(lambda event: self.note("one", event))
        self.second = self.tree.connect(lambda event: self.note("two", event))
        self.tree.serve(
            self.threads, on_failure=self.failures.append, on_warning=self.warnings.append
        )

    def note(self, session: str, event: SessionEvent) -> None:
        self.seen.append((session, event))

    def follow(self, name: str, pending: Pending[Any]) -> None:
        """Record the outcome of a call in `seen`."""

        def ended(done: Pending[Any]) -> None:
            try:
                done.result()
            except CoordinationError as error:
                self.seen.append((name, type(error)))
            else:
                self.seen.append((name, None))

        pending.on_done(ended)

    def names(self) -> list[str]:
        return [name for name, _ in self.seen]

    def syncs(self) -> int:
        """How many times the thread works until nothing is left."""
        count = 0
        while self.threads.work():
            count += 1
            self.threads.report()
        return count


def test_write_is_done_when_its_sync_is_done() -> None:
    scene = Scene()
    pending = scene.first.create("/a", b"")
    assert not pending.is_done
    scene.threads.work()
    assert not pending.is_done
    scene.threads.report()
    assert pending.result() == "/a"


def test_read_waits_for_the_sync_of_the_write_that_it_returns() -> None:
    scene = Scene()
    before = scene.second.exists("/a")
    assert before.is_done
    assert before.result() is None
    scene.first.create("/a", b"")
    shown = scene.second.exists("/a")
    assert not shown.is_done
    scene.threads.settle()
    assert shown.result() is not None


def test_error_waits_for_the_sync_of_the_write_that_causes_it() -> None:
    scene = Scene()
    scene.first.create("/a", b"")
    refused = scene.second.create("/a", b"")
    assert not refused.is_done
    scene.threads.settle()
    with pytest.raises(NodeExists):
        refused.result()


def test_watch_events_are_delivered_after_the_sync_and_before_later_results() -> None:
    scene = Scene()
    scene.second.exists("/a", watch=True)
    scene.follow("write", scene.first.create("/a", b""))
    scene.follow("read", scene.second.exists("/a", watch=True))
    scene.follow("second write", scene.first.set("/a", b"2"))
    assert scene.seen == []
    scene.threads.settle()
    assert scene.names() == ["two", "write", "read", "two", "second write"]


def test_waiting_writes_share_one_sync() -> None:
    scene = Scene()
    for number in range(50):
        scene.follow(f"{number}", scene.first.create(f"/n{number}", b""))
    assert scene.syncs() == 1
    assert scene.names() == [f"{number}" for number in range(50)]


def test_writes_during_a_sync_share_the_next_sync() -> None:
    scene = Scene()
    scene.follow("first", scene.first.create("/first", b""))
    scene.threads.work()
    for number in range(10):
        scene.follow("later", scene.first.create(f"/n{number}", b""))
    scene.threads.report()
    assert scene.names() == ["first"]
    assert scene.syncs() == 1
    assert len(scene.seen) == 11


def test_call_within_a_callback_completes_after_the_held_results() -> None:
    scene = Scene()

    def read_again(_: Pending[str]) -> None:
        scene.follow("read", scene.first.get("/a"))

    scene.second.exists("/b", watch=True)
    scene.first.create("/a", b"").on_done(read_again)
    scene.follow("b", scene.first.create("/b", b""))
    scene.threads.settle()
    assert scene.names() == ["two", "b", "read"]


def test_failed_sync_fails_all_held_results_and_is_reported_once() -> None:
    scene = Scene()
    scene.second.exists("/a", watch=True)
    for name in ("a", "b"):
        scene.follow(name, scene.first.create(f"/{name}", b""))
    scene.follow("read", scene.second.exists("/a"))
    scene.files.fail_operation(1, OSError(errno.EIO, "the disk failed"))
    scene.threads.settle()
    assert scene.seen == [("a", StorageFailed), ("b", StorageFailed), ("read", StorageFailed)]
    assert len(scene.failures) == 1
    operations = scene.files.operations
    scene.follow("later", scene.second.exists("/a"))
    assert scene.seen[-1] == ("later", StorageFailed)
    assert scene.files.operations == operations
    assert not scene.threads.is_busy


def test_full_disk_fails_one_write_while_others_wait_for_their_sync() -> None:
    scene = Scene()
    scene.follow("a", scene.first.create("/a", b""))
    scene.files.fail_operation(1, OSError(errno.ENOSPC, "full"))
    scene.follow("b", scene.first.create("/b", b""))
    scene.follow("c", scene.first.create("/c", b""))
    scene.threads.settle()
    assert scene.seen == [("a", None), ("b", StorageFailed), ("c", None)]
    assert scene.first.children("/").result() == ["a", "c"]
    assert not scene.failures


def test_journal_is_folded_in_a_thread_while_writes_continue() -> None:
    scene = Scene(entries_max=5)
    session = scene.first
    for number in range(8):
        session.create(f"/n{number}", b"")
    while len(scene.files.list(FOLDER)) < 2:
        scene.threads.work()
        scene.threads.report()
    written = session.create("/during", b"")
    scene.threads.settle()
    assert written.result() == "/during"
    names = scene.files.list(FOLDER)
    assert [name for name in names if "snapshot" in name] == [
        "coordination.snapshot.00000000000000000010"
    ]
    assert not scene.warnings
    again = EmbeddedTree(scene.files, FOLDER, VirtualClock())
    assert "/during" in again.tree.nodes
    assert "/n7" in again.tree.nodes


@pytest.mark.parametrize("seed", range(60))
def test_reported_writes_survive_a_power_failure_at_any_moment(seed: int) -> None:
    rng = SeededRandomness(seed)
    scene = Scene(entries_max=4)
    done: dict[str, int] = {}
    shown: dict[str, int] = {}
    versions: dict[str, int] = {}
    sessions: tuple[EmbeddedSession, ...] = (scene.first, scene.second)
    for _ in range(rng.below(120)):
        path = f"/n{rng.below(6)}"
        session = sessions[rng.below(2)]
        match rng.below(5):
            case 0 | 1:
                number = versions[path] = versions.get(path, -1) + 1
                data = str(number).encode()
                write = (
                    session.multi([SetData(path, data)])
                    if number
                    else session.multi([Create(path, data)])
                )

                def ended(pending: Pending[Any], path: str = path, number: int = number) -> None:
                    pending.result()
                    done[path] = number

                write.on_done(ended)
            case 2 if path in versions:

                def read(pending: Pending[Any], path: str = path) -> None:
                    shown[path] = int(pending.result()[0])

                session.get(path).on_done(read)
            case 3:
                scene.threads.work()
            case _:
                scene.threads.report()
    scene.files.crash(rng)
    again = EmbeddedTree(scene.files, FOLDER, VirtualClock())
    for seen in (done, shown):
        for path, number in seen.items():
            assert int(again.tree.nodes[path].data or b"-1") >= number
    assert all(int(again.tree.nodes[path].data or b"-1") <= versions[path] for path in done)
