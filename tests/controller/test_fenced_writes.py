"""Writes of a controller: many share a multi, and one that is refused takes no other with it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from odradek.controller.coordination.errors import PROCEDURE_ERRORS, BadVersion, NodeExists, NoNode
from odradek.controller.coordination.session import Create, Delete, SetData, Stat
from odradek.controller.znodes.fenced_writes import (
    SHARED_BYTES_MAX,
    SHARED_GROUPS_MAX,
    ControllerMoved,
    FencedWrites,
)
from odradek.runtime.work import SerialQueue
from tests.support.cluster import Cluster

T = TypeVar("T")


def finish(procedure: Coroutine[Any, None, T]) -> T:
    return SerialQueue(*PROCEDURE_ERRORS).submit(lambda: procedure).result()


def fence(cluster: Cluster) -> FencedWrites:
    session = cluster.tree.connect(lambda event: None)
    return FencedWrites(session, cluster.tree.tree.nodes["/controller_epoch"].version)


def test_groups_share_multis_up_to_their_bounds() -> None:
    cluster = Cluster()
    cluster.add(1)
    before = cluster.tree.tree.zxid
    count = 3 * SHARED_GROUPS_MAX + 1
    written = fence(cluster).write_all([[Create(f"/small-{number}")] for number in range(count)])
    assert finish(written) == [[f"/small-{number}"] for number in range(count)]
    assert cluster.tree.tree.zxid == before + 1 + 4
    data = bytes(SHARED_BYTES_MAX)
    before = cluster.tree.tree.zxid
    finish(fence(cluster).write_all([[Create(f"/large-{number}", data)] for number in range(3)]))
    assert cluster.tree.tree.zxid == before + 1 + 3


def test_refused_group_has_its_error_and_the_others_are_written() -> None:
    cluster = Cluster()
    cluster.add(1)
    fenced = fence(cluster)
    finish(fenced.write_all([[Create("/there")]]))
    results = finish(
        fenced.write_all(
            [
                [Create("/a"), Create("/a/b")],
                [Create("/c"), Create("/there")],
                [SetData("/there", b"1", 7)],
                [SetData("/there", b"2", 0), Delete("/a/b")],
                [Delete("/nowhere")],
            ]
        )
    )
    assert results[0] == ["/a", "/a/b"]
    assert [type(results[index]) for index in (1, 2, 4)] == [NodeExists, BadVersion, NoNode]
    assert isinstance(results[3], list)
    assert isinstance(results[3][0], Stat)
    nodes = cluster.tree.tree.nodes
    assert "/c" not in nodes
    assert nodes["/there"].data == b"2"
    assert nodes["/a"].children == {}


def test_controller_that_moved_writes_nothing() -> None:
    cluster = Cluster()
    cluster.add(1)
    fenced = fence(cluster)
    client = cluster.tree.connect(lambda event: None)
    client.set("/controller_epoch", b"9").result()
    try:
        finish(fenced.write_all([[Create("/a")], [Create("/b")]]))
    except ControllerMoved:
        assert "/a" not in cluster.tree.tree.nodes
    else:
        raise AssertionError("the epoch was another one")
