"""A data directory that comes to another cluster: its topics made known to the coordination.

In ZooKeeper mode a broker learns from the coordination which topics there are; a directory alone
says only their ids.  So a directory that one broker wrote is opened by another after the znodes of
its topics were written, with the ids that lie in `partition.metadata`.
"""

from __future__ import annotations

import json
from pathlib import Path

from kazoo.client import KazooClient

from odradek.controller.coordination.embedded import EmbeddedTree
from odradek.runtime.clock import SystemClock
from odradek.runtime.system_files import SystemFileSystem

CONFIG_VERSION = 1
ASSIGNMENT_VERSION = 3


def cluster_id(folder: Path) -> str:
    """Of `meta.properties`."""
    for line in (folder / "meta.properties").read_text().splitlines():
        key, _, value = line.partition("=")
        if key == "cluster.id":
            return value
    raise AssertionError("meta.properties names no cluster")


def topic_ids(folder: Path) -> dict[str, tuple[str, list[int]]]:
    """The topics of a directory: id and partitions."""
    ids: dict[str, tuple[str, list[int]]] = {}
    for metadata in sorted(folder.glob("*/partition.metadata")):
        name, _, partition = metadata.parent.name.rpartition("-")
        fields = dict(line.split(": ") for line in metadata.read_text().splitlines())
        ids.setdefault(name, (fields["topic_id"], []))[1].append(int(partition))
    return ids


def znodes(
    folder: Path, broker_id: int, configs: dict[str, dict[str, str]] | None = None
) -> dict[str, bytes]:
    """What the coordination must hold before the broker starts: path -> data, parents first."""
    nodes: dict[str, object] = {"/cluster/id": {"version": "1", "id": cluster_id(folder)}}
    for name, (topic_id, partitions) in topic_ids(folder).items():
        nodes[f"/brokers/topics/{name}"] = {
            "version": ASSIGNMENT_VERSION,
            "topic_id": topic_id,
            "partitions": {str(partition): [broker_id] for partition in sorted(partitions)},
            "adding_replicas": {},
            "removing_replicas": {},
        }
        nodes[f"/config/topics/{name}"] = {
            "version": CONFIG_VERSION,
            "config": {"retention.ms": "-1", **(configs or {}).get(name, {})},
        }
    return {path: json.dumps(value).encode() for path, value in nodes.items()}


def seed_zookeeper(address: str, chroot: str, nodes: dict[str, bytes]) -> None:
    """Write the znodes below `chroot` of a real ZooKeeper."""
    client = KazooClient(hosts=address)
    client.start()
    try:
        for path, data in nodes.items():
            client.create(f"{chroot}{path}", data, makepath=True)
    finally:
        client.stop()
        client.close()


def seed_embedded(folder: Path, nodes: dict[str, bytes]) -> None:
    """Write the znodes into the tree that our broker keeps in its first directory."""
    tree = EmbeddedTree(SystemFileSystem(), str(folder), SystemClock())
    session = tree.connect(lambda event: None)
    for path, data in nodes.items():
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts)):
            parent = "/" + "/".join(parts[:depth])
            if session.exists(parent).result() is None:
                session.create(parent, b"").result()
        session.create(path, data).result()
    tree.close()
