"""The rules of the tree, one by one; test_against_zookeeper compares it with a real ZooKeeper."""

from __future__ import annotations

import pytest

from odradek.controller.coordination.errors import (
    BadArguments,
    BadVersion,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    RuntimeInconsistency,
    SessionExpired,
)
from odradek.controller.coordination.session import (
    DATA_BYTES_MAX,
    Check,
    Create,
    Delete,
    SetData,
    WatchEvent,
    WatchKind,
    ZkOperation,
    ZkResult,
)
from odradek.controller.coordination.tree import Tree

NOW_MS = 1_000


class Writer:
    """A session on a tree; watches fire with each write."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        tree.open_session(6_000)
        self.session_id = tree.last_session_id
        self.events: list[tuple[int, WatchEvent]] = []

    def write(self, *operations: ZkOperation) -> list[ZkResult]:
        change = self.tree.transact(self.session_id, operations, NOW_MS)
        self.events = self.tree.fire(change)
        self.tree.check()
        return change.results


@pytest.fixture
def writer() -> Writer:
    return Writer(Tree())


def refusal(writer: Writer, *operations: ZkOperation) -> type[Exception]:
    before = writer.tree.zxid, {path: node.stat() for path, node in writer.tree.nodes.items()}
    with pytest.raises(MultiFailed) as failure:
        writer.write(*operations)
    after = writer.tree.zxid, {path: node.stat() for path, node in writer.tree.nodes.items()}
    assert before == after
    return type(failure.value.error)


@pytest.mark.parametrize(
    "path", ["", "a", "/a/", "//a", "/.", "/a/..", "/a\x00b", "/a\x1fb", "/\ue000", "/\U0001f600"]
)
def test_malformed_path_raises_bad_arguments(writer: Writer, path: str) -> None:
    writer.write(Create("/a"))
    assert refusal(writer, Create(path)) is BadArguments


@pytest.mark.parametrize("path", ["/a//b", "/a/./b", "/none/\x01", "/none/.."])
def test_missing_parent_is_reported_before_a_malformed_path(writer: Writer, path: str) -> None:
    writer.write(Create("/a"))
    assert refusal(writer, Create(path)) is NoNode


@pytest.mark.parametrize("path", ["/...", "/.a", "/a b", "/é", "/<default>", "/a.b", "/a..b"])
def test_unusual_but_valid_path_is_accepted(writer: Writer, path: str) -> None:
    assert writer.write(Create(path)) == [path]


def test_root_cannot_be_created_or_deleted(writer: Writer) -> None:
    assert refusal(writer, Create("/")) is NodeExists
    assert refusal(writer, Delete("/")) is BadArguments


def test_data_above_the_limit_raise_bad_arguments(writer: Writer) -> None:
    writer.write(Create("/a", bytes(DATA_BYTES_MAX)))
    assert refusal(writer, SetData("/a", bytes(DATA_BYTES_MAX + 1))) is BadArguments
    assert refusal(writer, Create("/b", bytes(DATA_BYTES_MAX + 1))) is BadArguments


def test_sequential_number_counts_all_children_ever_created(writer: Writer) -> None:
    writer.write(Create("/q"), Create("/q/plain"))
    assert writer.write(Create("/q/n-", sequential=True)) == ["/q/n-0000000001"]
    writer.write(Delete("/q/plain"), Delete("/q/n-0000000001"))
    assert writer.write(Create("/q/n-", sequential=True), Create("/q/", sequential=True)) == [
        "/q/n-0000000002",
        "/q/0000000003",
    ]


def test_failed_create_takes_no_sequential_number(writer: Writer) -> None:
    writer.write(Create("/q"))
    assert refusal(writer, Create("/q/", sequential=True), Delete("/nothing")) is NoNode
    assert writer.write(Create("/q/", sequential=True)) == ["/q/0000000000"]


def test_create_under_an_ephemeral_node_fails(writer: Writer) -> None:
    writer.write(Create("/e", ephemeral=True))
    assert refusal(writer, Create("/e/child")) is NoChildrenForEphemerals


def test_delete_checks_the_version_before_the_children(writer: Writer) -> None:
    writer.write(Create("/a"), Create("/a/b"))
    assert refusal(writer, Delete("/a", 3)) is BadVersion
    assert refusal(writer, Delete("/a", 0)) is NotEmpty


def test_multi_sees_its_own_earlier_operations(writer: Writer) -> None:
    results = writer.write(
        Create("/a", None, ephemeral=True), SetData("/a", b"x", 0), Check("/a", 1)
    )
    assert results[0] == "/a"
    assert results[2] is None
    stat = writer.tree.nodes["/a"].stat()
    assert stat.czxid == stat.mzxid == writer.tree.zxid
    assert stat.version == 1


def test_failed_multi_has_the_index_of_the_operation(writer: Writer) -> None:
    writer.write(Create("/a"))
    with pytest.raises(MultiFailed) as failure:
        writer.write(Create("/b"), Check("/a", 4), Delete("/b"))
    assert failure.value.index == 1
    assert [type(error) for error in failure.value.errors] == [
        type(None),
        BadVersion,
        RuntimeInconsistency,
    ]


def test_watch_fires_once(writer: Writer) -> None:
    writer.write(Create("/a"))
    writer.tree.get(writer.session_id, "/a", watch=True)
    writer.write(SetData("/a", b"1"))
    assert writer.events == [(writer.session_id, WatchEvent(WatchKind.DATA_CHANGED, "/a"))]
    writer.write(SetData("/a", b"2"))
    assert writer.events == []


def test_get_of_an_absent_node_sets_no_watch_but_exists_does(writer: Writer) -> None:
    with pytest.raises(NoNode):
        writer.tree.get(writer.session_id, "/a", watch=True)
    with pytest.raises(NoNode):
        writer.tree.children(writer.session_id, "/a", watch=True)
    writer.write(Create("/a"), Delete("/a"))
    assert writer.events == []
    writer.tree.exists(writer.session_id, "/a", watch=True)
    writer.write(Create("/a"))
    assert writer.events == [(writer.session_id, WatchEvent(WatchKind.CREATED, "/a"))]


def test_session_with_data_and_child_watch_gets_one_deleted_event(writer: Writer) -> None:
    writer.write(Create("/a"))
    writer.tree.get(writer.session_id, "/a", watch=True)
    writer.tree.children(writer.session_id, "/a", watch=True)
    other = Writer(writer.tree)
    other.tree.children(other.session_id, "/a", watch=True)
    other.tree.children(other.session_id, "/", watch=True)
    writer.write(Delete("/a"))
    assert writer.events == [
        (writer.session_id, WatchEvent(WatchKind.DELETED, "/a")),
        (other.session_id, WatchEvent(WatchKind.DELETED, "/a")),
        (other.session_id, WatchEvent(WatchKind.CHILDREN_CHANGED, "/")),
    ]


def test_child_watch_does_not_fire_for_grandchildren(writer: Writer) -> None:
    writer.write(Create("/a"))
    writer.tree.children(writer.session_id, "/", watch=True)
    writer.write(Create("/a/b"), SetData("/a", b"x"))
    assert writer.events == []


def test_close_session_removes_its_ephemeral_nodes_and_watches(writer: Writer) -> None:
    other = Writer(writer.tree)
    other.write(Create("/e", ephemeral=True), Create("/p"))
    other.tree.get(other.session_id, "/p", watch=True)
    writer.tree.exists(writer.session_id, "/e", watch=True)
    events = writer.tree.fire(writer.tree.close_session(other.session_id))
    assert events == [(writer.session_id, WatchEvent(WatchKind.DELETED, "/e"))]
    assert sorted(writer.tree.nodes) == ["/", "/p"]
    writer.write(SetData("/p", b"x"))
    assert writer.events == []
    with pytest.raises(SessionExpired):
        other.write(Create("/e"))
    with pytest.raises(SessionExpired):
        other.tree.exists(other.session_id, "/p")
    writer.tree.check()


def test_close_session_can_be_undone(writer: Writer) -> None:
    writer.write(Create("/e", b"1", ephemeral=True))
    before = writer.tree.nodes["/e"].stat(), writer.tree.nodes["/"].stat(), writer.tree.zxid
    writer.tree.undo(writer.tree.close_session(writer.session_id))
    assert before == (
        writer.tree.nodes["/e"].stat(),
        writer.tree.nodes["/"].stat(),
        writer.tree.zxid,
    )
    writer.tree.check()
    writer.write(Delete("/e"))
