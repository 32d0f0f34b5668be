"""DescribeCluster, DescribeLogDirs, FindCoordinator."""

from __future__ import annotations

from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.talk import Talk, versions_of

COORDINATOR_PATIENCE_S = 5.0
GROUP, TRANSACTION, SHARE = range(3)


def play(talk: Talk) -> None:
    """The cluster, its directories, its coordinators."""
    for version in versions_of(DescribeClusterRequest):
        for has_operations in (False, True):
            request = DescribeClusterRequest(include_cluster_authorized_operations=has_operations)
            talk.ask(f"the cluster, operations {has_operations}", request, version)
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2)
    talk.ask("the controllers", request, 1)
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=9)
    talk.ask("endpoints of an unknown kind", request, 1)
    directories(talk)
    coordinators(talk)


def directories(talk: Talk) -> None:
    """Sizes of one topic's logs."""
    talk.make_topic("directories", 2)
    talk.quiet(produce_request("directories", batch()), 9)
    for version in versions_of(DescribeLogDirsRequest):
        describable = DescribableLogDirTopic(topic="directories", partitions=[0])
        talk.ask("one partition", DescribeLogDirsRequest(topics=[describable]), version)
        unknown = DescribableLogDirTopic(topic="never-made", partitions=[0, 1])
        talk.ask("an unknown topic", DescribeLogDirsRequest(topics=[unknown]), version)
    absent = DescribableLogDirTopic(topic="directories", partitions=[7])
    talk.ask("an unknown partition", DescribeLogDirsRequest(topics=[absent]), 4)
    talk.ask("no topic", DescribeLogDirsRequest(topics=[]), 4)
    everything = talk.quiet(DescribeLogDirsRequest(topics=None), 4)
    here = everything.results[0].log_dir
    for version in versions_of(AlterReplicaLogDirsRequest)[1:]:
        for label, name, index, path in (
            ("to where it is", "directories", 0, here),
            ("to nowhere", "directories", 0, "/no/such/directory"),
            ("of an unknown partition", "directories", 7, here),
            ("of an unknown topic", "never-made", 0, here),
            ("of an impossible topic", "a/b", 0, here),
            ("of an unknown topic to nowhere", "never-made", 0, "/no/such/directory"),
        ):
            topic = AlterReplicaLogDirTopic(name=name, partitions=[index])
            move = AlterReplicaLogDir(path=path, topics=[topic])
            talk.ask(f"a move {label}", AlterReplicaLogDirsRequest(dirs=[move]), version)


def coordinators(talk: Talk) -> None:
    """Of groups and transactions, once their topics are there."""
    for kind in (GROUP, TRANSACTION):
        wait_for_coordinator(talk, kind)
    for version in versions_of(FindCoordinatorRequest):
        kinds = (GROUP,) if version == 0 else (GROUP, TRANSACTION, 9)
        for kind in kinds:
            if version < 4:
                request = FindCoordinatorRequest(key="any-key", key_type=kind)
            else:
                request = FindCoordinatorRequest(coordinator_keys=["a", "b"], key_type=kind)
            talk.ask(f"kind {kind}", request, version)
    talk.ask("no keys", FindCoordinatorRequest(coordinator_keys=[]), 4)
    talk.ask("an empty key", FindCoordinatorRequest(coordinator_keys=[""]), 4)
    for version in versions_of(FindCoordinatorRequest)[1:]:
        share = FindCoordinatorRequest(key="g:0:0", coordinator_keys=["g:0:0"], key_type=SHARE)
        talk.ask("a share group", share, version)


def wait_for_coordinator(talk: Talk, kind: int) -> None:
    """The topic of a coordinator is made when it is first asked for."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["any-key"])
    talk.until(
        f"coordinator of kind {kind}",
        lambda: talk.quiet(request, 4).coordinators[0].error_code,
        lambda code: bool(code == 0),
        patience_s=COORDINATOR_PATIENCE_S,
        must=False,
    )
