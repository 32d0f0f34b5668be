"""The embedded tree on disk: what was answered is there after any end of the process."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator

import pytest

from controller.coordination.embedded import (
    JOURNAL_NAME,
    SNAPSHOT_NAME,
    EmbeddedSession,
    EmbeddedTree,
)
from controller.coordination.errors import (
    BadVersion,
    CoordinationError,
    MultiFailed,
    NodeExists,
    SessionExpired,
    StorageFailed,
)
from controller.coordination.journal import SnapshotDamaged
from controller.coordination.session import (
    Create,
    Delete,
    Event,
    SessionState,
    SetData,
    WatchEvent,
    WatchKind,
)
from controller.coordination.tree import Tree
from runtime.clock import VirtualClock
from runtime.memory_files import MemoryFileSystem
from runtime.memory_nodes import FileNode
from runtime.rng import SeededRng
from runtime.system_files import SystemFileSystem

FOLDER = "/data"
Picture = dict[str, tuple[bytes | None, int, int]]


class Killed(BaseException):
    """The process is no more."""


class KillingFiles(MemoryFileSystem):
    """Kills the process at one operation, in the middle of it when it writes."""

    kill_at = 0

    def count_operation(self, path: str) -> None:
        if self.operations + 1 == self.kill_at:
            raise Killed
        super().count_operation(path)

    def write(self, node: FileNode, position: int, data: bytes, path: str) -> None:
        if self.operations + 1 == self.kill_at:
            node.write(position, data[: len(data) * 2 // 3])
            raise Killed
        super().write(node, position, data, path)


def open_tree(
    files: MemoryFileSystem, *, sync_writes: bool = False, entries_max: int = 5
) -> EmbeddedTree:
    return EmbeddedTree(
        files, FOLDER, VirtualClock(), sync_writes=sync_writes, journal_entries_max=entries_max
    )


def ignore(_: Event) -> None:
    """Nobody listens."""


def picture_of(tree: Tree) -> Picture:
    """What outlives the sessions."""
    return {
        path: (node.data, node.version, node.creates)
        for path, node in tree.nodes.items()
        if not node.owner
    }


def steps() -> Iterator[Callable[[EmbeddedSession], None]]:
    """Writes that touch the same few nodes again and again."""
    yield lambda session: (session.create("/topics", b"").result(), None)[1]
    for number in range(8):
        name = f"/topics/t{number}"
        yield lambda session, name=name: (session.create(name, b"one").result(), None)[1]
        yield lambda session, name=name: (session.set(name, b"two" * 9, 0).result(), None)[1]
        yield lambda session, name=name: (
            session.multi([SetData("/topics", name.encode()), Create(name + "/state")]).result(),
            None,
        )[1]
        if number % 2:
            yield lambda session, name=name: session.delete(name + "/state").result()
        yield lambda session: (
            session.create("/owner-", b"me", ephemeral=True, sequential=True).result(),
            None,
        )[1]


def run(files: MemoryFileSystem, seen: list[Picture], *, sync_writes: bool) -> None:
    """All steps; `seen` gets the picture after each one that was answered."""
    embedded = open_tree(files, sync_writes=sync_writes)
    seen.append(picture_of(embedded.tree))
    session = embedded.connect(ignore)
    for step in steps():
        step(session)
        seen.append(picture_of(embedded.tree))
    embedded.close()


def next_picture(position: int) -> Picture:
    """The picture after one step more than `position`."""
    seen: list[Picture] = []
    run(MemoryFileSystem(folders=[FOLDER]), seen, sync_writes=False)
    return seen[min(position + 1, len(seen) - 1)]


def operations_of_a_run(*, sync_writes: bool) -> int:
    files = MemoryFileSystem(folders=[FOLDER])
    run(files, [], sync_writes=sync_writes)
    return files.operations


def same_but_for_creates(found: Picture, wanted: Picture) -> bool:
    """Ephemerals made by an unanswered step count in the root's creates."""
    return {key: value[:2] for key, value in found.items()} == {
        key: value[:2] for key, value in wanted.items()
    }


@pytest.mark.parametrize("has_power_cut", [False, True])
def test_a_death_at_any_file_operation_loses_nothing_that_was_answered(
    has_power_cut: bool,
) -> None:
    count = operations_of_a_run(sync_writes=has_power_cut)
    assert count > 60
    for kill_at in range(1, count + 1):
        files = KillingFiles(folders=[FOLDER])
        files.kill_at = kill_at
        seen: list[Picture] = [picture_of(Tree())]
        with pytest.raises(Killed):
            run(files, seen, sync_writes=has_power_cut)
        files.kill_at = 0
        if has_power_cut:
            files.crash(SeededRng(kill_at))
        embedded = open_tree(files, sync_writes=has_power_cut)
        embedded.tree.check()
        found = picture_of(embedded.tree)
        position = len(seen) - 2
        assert same_but_for_creates(found, seen[-1]) or same_but_for_creates(
            found, next_picture(position)
        ), f"killed at operation {kill_at}"
        assert all(node.owner == 0 for node in embedded.tree.nodes.values())
        embedded.connect(ignore).create("/after", None).result()


def test_a_failure_at_any_file_operation_is_told_or_undone() -> None:
    failing = 0
    while True:
        failing += 1
        files = MemoryFileSystem(folders=[FOLDER])
        embedded = open_tree(files)
        session = embedded.connect(ignore)
        end = files.operations + failing
        files.fail_operation(failing, OSError(errno.ENOSPC, "full"))
        refused = 0
        for step in steps():
            before = picture_of(embedded.tree)
            try:
                step(session)
            except StorageFailed:
                refused += 1
                assert picture_of(embedded.tree) == before
            except CoordinationError:
                if not refused:
                    raise
            embedded.tree.check()
        if files.operations < end:
            break
        last = picture_of(embedded.tree)
        assert picture_of(open_tree(files).tree) == last
    assert failing > 40


def test_a_full_disk_refuses_writes_until_there_is_room() -> None:
    files = MemoryFileSystem(folders=[FOLDER], capacity_bytes=2_000)
    embedded = open_tree(files, entries_max=10_000)
    session = embedded.connect(ignore)
    made = 0
    while made < 100:
        try:
            session.create(f"/n{made}", b"x" * 50).result()
        except StorageFailed:
            break
        made += 1
    assert 10 < made < 100
    assert session.exists(f"/n{made}").result() is None
    files.capacity_bytes = 10_000
    session.create(f"/n{made}", b"").result()
    again = open_tree(files)
    assert len(again.tree.nodes) == made + 2


def test_a_failed_sync_ends_all_writing() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    embedded = open_tree(files, sync_writes=True)
    session = embedded.connect(ignore)
    files.fail_operation(2, OSError(errno.EIO, "lost"))
    with pytest.raises(StorageFailed):
        session.create("/a", None).result()
    with pytest.raises(StorageFailed):
        session.create("/b", None).result()
    assert session.exists("/a").result() is None


def test_a_torn_tail_is_cut_off() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    embedded = open_tree(files, entries_max=1_000)
    session = embedded.connect(ignore)
    session.create("/kept", b"1").result()
    path = f"{FOLDER}/{JOURNAL_NAME}"
    size = files.size(path)
    session.create("/torn", b"2").result()
    whole = files.read(path)
    for end in range(size, len(whole)):
        files.open(path).truncate(0)
        files.open(path).append([whole[:end]])
        again = open_tree(files, entries_max=1_000)
        assert again.torn_bytes == end - size
        assert sorted(again.tree.nodes) == ["/", "/kept"]


def test_a_flipped_bit_ends_the_journal_there() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    session = open_tree(files, entries_max=1_000).connect(ignore)
    path = f"{FOLDER}/{JOURNAL_NAME}"
    session.create("/a", b"1").result()
    size = files.size(path)
    session.create("/b", b"2").result()
    content = bytearray(files.read(path))
    content[size + 12] ^= 1
    files.open(path).write_at(0, bytes(content))
    assert sorted(open_tree(files).tree.nodes) == ["/", "/a"]


def test_damage_with_good_entries_behind_it_is_refused_and_nothing_is_cut() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    session = open_tree(files, entries_max=1_000).connect(ignore)
    path = f"{FOLDER}/{JOURNAL_NAME}"
    size = files.size(path)
    session.create("/a", b"1").result()
    session.create("/b", b"2").result()
    content = bytearray(files.read(path))
    content[size + 12] ^= 1
    files.open(path).write_at(0, bytes(content))
    with pytest.raises(SnapshotDamaged, match=f"damaged at byte {size}"):
        open_tree(files)
    assert files.read(path) == bytes(content)


def test_a_damaged_snapshot_is_refused() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    open_tree(files).close()
    embedded = open_tree(files)
    embedded.connect(ignore).create("/a", b"1").result()
    embedded.close()
    path = f"{FOLDER}/{SNAPSHOT_NAME}"
    content = bytearray(files.read(path))
    content[40] ^= 1
    files.open(path).write_at(0, bytes(content))
    with pytest.raises(SnapshotDamaged):
        open_tree(files)


def test_a_journal_that_does_not_continue_the_snapshot_is_refused() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    embedded = open_tree(files, entries_max=3)
    session = embedded.connect(ignore)
    session.create("/a", None).result()
    for _ in range(9):
        session.set("/a", b"again").result()
    files.remove(f"{FOLDER}/{SNAPSHOT_NAME}")
    with pytest.raises(SnapshotDamaged):
        open_tree(files)


def test_a_session_of_an_earlier_process_is_gone_with_its_ephemeral_nodes() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    session = open_tree(files).connect(ignore)
    session.create("/mine", None, ephemeral=True).result()
    again = open_tree(files)
    later = again.connect(ignore)
    assert later.exists("/mine").result() is None
    assert later.session_id > session.session_id
    later.create("/mine", None, ephemeral=True).result()
    stat = later.exists("/mine").result()
    assert stat is not None
    assert stat.ephemeral_owner == later.session_id


def test_transaction_ids_rise_over_restarts() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    last = 0
    for number in range(5):
        embedded = open_tree(files)
        session = embedded.connect(ignore)
        session.create(f"/n{number}", None, ephemeral=True).result()
        stat = session.exists(f"/n{number}").result()
        assert stat is not None
        assert stat.czxid > last
        last = stat.czxid
        if number % 2:
            embedded.close()


def test_an_expired_session_writes_nothing_until_it_is_reopened() -> None:
    events: list[Event] = []
    embedded = open_tree(MemoryFileSystem(folders=[FOLDER]))
    session = embedded.connect(events.append)
    session.create("/mine", None, ephemeral=True).result()
    old = session.session_id
    embedded.expire(old)
    assert events == [SessionState.EXPIRED]
    with pytest.raises(SessionExpired):
        session.create("/other", None).result()
    with pytest.raises(SessionExpired):
        session.get("/").result()
    session.reopen().result()
    assert session.session_id != old
    assert session.exists("/mine").result() is None
    session.create("/mine", None, ephemeral=True).result()


def test_events_come_before_the_write_is_answered_and_in_order() -> None:
    embedded = open_tree(MemoryFileSystem(folders=[FOLDER]))
    events: list[Event] = []
    writer = embedded.connect(ignore)
    reader = embedded.connect(events.append)
    reader.exists("/a", watch=True).result()
    reader.children("/", watch=True).result()
    writer.multi([Create("/a", b"1"), SetData("/a", b"2"), Delete("/a")]).result()
    assert events == [
        WatchEvent(WatchKind.CREATED, "/a"),
        WatchEvent(WatchKind.CHILDREN_CHANGED, "/"),
    ]


def test_a_callback_that_writes_does_not_reorder_events() -> None:
    embedded = open_tree(MemoryFileSystem(folders=[FOLDER]))
    seen: list[tuple[str, Event]] = []

    def first(event: Event) -> None:
        seen.append(("first", event))
        if event == WatchEvent(WatchKind.CREATED, "/a"):
            one.create("/b", None).result()

    one = embedded.connect(first)
    two = embedded.connect(lambda event: seen.append(("two", event)))
    for session in (one, two):
        session.exists("/a", watch=True).result()
        session.exists("/b", watch=True).result()
    embedded.connect(ignore).create("/a", None).result()
    assert [(who, event.path) for who, event in seen if isinstance(event, WatchEvent)] == [
        ("first", "/a"),
        ("two", "/a"),
        ("first", "/b"),
        ("two", "/b"),
    ]


def test_a_refused_multi_says_why_and_does_nothing() -> None:
    session = open_tree(MemoryFileSystem(folders=[FOLDER])).connect(ignore)
    session.create("/a", b"1").result()
    with pytest.raises(MultiFailed) as failure:
        session.multi([Create("/b"), SetData("/a", b"2", version=5), Create("/c")]).result()
    assert failure.value.index == 1
    assert isinstance(failure.value.error, BadVersion)
    assert session.children("/").result() == ["a"]
    with pytest.raises(NodeExists):
        session.create("/a", None).result()


def test_a_thousand_topics_are_read_in_a_tenth_of_a_second(tmp_path: object) -> None:
    files = SystemFileSystem()
    folder = str(tmp_path)
    embedded = EmbeddedTree(files, folder, VirtualClock())
    session = embedded.connect(ignore)
    assignment = b'{"partitions":{"0":[1]},"topic_id":"yenGFmEuRpamzswbeOUQYQ","version":3}'
    session.multi([Create("/topics"), Create("/config")]).result()
    for number in range(1_000):
        path = f"/topics/topic-{number}"
        session.multi([Create(f"/config/topic-{number}", b"{}"), Create(path, assignment)]).result()
        session.multi([Create(path + "/partitions")]).result()
        session.multi(
            [Create(path + "/partitions/0"), Create(path + "/partitions/0/state", assignment)]
        ).result()
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        again = EmbeddedTree(files, folder, VirtualClock())
        seconds.append(time.perf_counter() - start)
        assert len(again.tree.nodes) == 5_003
    # Five runs, the best of them: other processes share the machine.
    assert min(seconds) < 0.1


def test_a_write_that_cannot_be_taken_back_ends_all_writing() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    session = open_tree(files).connect(ignore)
    session.create("/a", None).result()
    files.fail_operation(1, OSError(errno.EIO, "bad"))
    files.fail_operation(2, OSError(errno.EIO, "bad"))
    for path in ("/b", "/c"):
        with pytest.raises(StorageFailed):
            session.create(path, None).result()
    again = open_tree(files)
    assert again.torn_bytes
    assert sorted(again.tree.nodes) == ["/", "/a"]
