"""Every client library writes and reads in a group while each part of the cluster is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.killing import VICTIMS, Scene, scene
from tests.support.broker_cluster import broker_cluster
from tests.support.zookeeper import connect_text, zookeeper_ensemble


def kill_each(scene: Scene) -> None:
    """Each part once, then the checks."""
    for victim in VICTIMS:
        scene.kill(victim)
    scene.check()
    print(*scene.steps, f"{scene.producers.count()} records acknowledged", sep="\n")


@pytest.mark.slow
def test_no_library_loses_a_record_when_parts_of_a_cluster_on_zookeeper_are_killed(
    tmp_path: Path,
) -> None:
    with (
        zookeeper_ensemble(tmp_path) as servers,
        broker_cluster(tmp_path, zookeeper_connect=connect_text(servers, "/kills")) as cluster,
        scene(cluster, tmp_path, servers=servers) as opened_scene,
    ):
        kill_each(opened_scene)


@pytest.mark.slow
def test_no_library_loses_a_record_when_parts_of_a_cluster_on_the_embedded_tree_are_killed(
    tmp_path: Path,
) -> None:
    with (
        broker_cluster(tmp_path, zookeeper_connect=None) as cluster,
        scene(cluster, tmp_path) as opened_scene,
    ):
        kill_each(opened_scene)
