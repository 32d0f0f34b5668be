"""One of two log directories fails under a running broker: what clients see, here and at Apache's.

The directory is moved away, so that the next checkpoint cannot be written into it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.talk import Talk, metadata_of
from tests.support.apache import apache_node
from tests.support.broker_process import odradek_broker

TOPIC = "orders"
COUNT = 4
PATIENCE_S = 60.0
OVERRIDES = {"replica.high.watermark.checkpoint.interval.ms": "200"}


@contextmanager
def broker_with_two_directories(kind: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Its address, and the second of its directories."""
    second = folder / "second"
    overrides = {**OVERRIDES, "log.dirs": f"{folder / 'data'},{second}"}
    if kind == "apache":
        with apache_node(folder, overrides=overrides) as apache:
            yield apache.address, second
            # It cannot stop cleanly any more.
            apache.process.kill()
    else:
        with odradek_broker(folder, overrides=overrides) as broker:
            yield broker.address, second


def partition_metadata(talk: Talk, index: int) -> dict[str, Any]:
    topic = talk.quiet(metadata_of([TOPIC]), 12).topics[0]
    partition = next(
        candidate for candidate in topic.partitions if candidate.partition_index == index
    )
    return {
        "error": partition.error_code,
        "leader": partition.leader_id,
        "epoch": partition.leader_epoch,
        "replicas": list(partition.replica_nodes),
        "isr": list(partition.isr_nodes),
        "offline": list(partition.offline_replicas),
    }


def produce_error(talk: Talk, index: int, acks: int) -> int:
    request = produce_request(TOPIC, batch(), partition=index, acks=acks)
    return int(talk.quiet(request, 9).responses[0].partition_responses[0].error_code)


def fetch_error(talk: Talk, index: int, version: int) -> int:
    topic = FetchTopic(
        topic=TOPIC,
        partitions=[FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1_000)],
    )
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1_000, topics=[topic])
    return int(talk.quiet(request, version).responses[0].partitions[0].error_code)


def offset_error(talk: Talk, index: int) -> int:
    partition = ListOffsetsPartition(partition_index=index, timestamp_ms=-1, max_num_offsets=1)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[partition])]
    )
    return int(talk.quiet(request, 5).topics[0].partitions[0].error_code)


def create_error(talk: Talk, name: str, count: int) -> int:
    topic = CreatableTopic(
        name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=20_000)
    return int(talk.quiet(request, 7).topics[0].error_code)


def delete_error(talk: Talk, name: str) -> int:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name, topic_id=UUID(int=0))], timeout_ms=500
    )
    return int(talk.quiet(request, 6).responses[0].error_code)


def partition_in(directory: Path) -> int:
    """One of those that are there."""
    return min(int(folder.name.rpartition("-")[2]) for folder in directory.glob(f"{TOPIC}-*"))


def until_offline(talk: Talk, index: int) -> None:
    """Produce, so that there is something new to checkpoint, until the partition has no leader."""
    talk.until(
        "the failure of the directory",
        lambda: (produce_error(talk, index, 1), partition_metadata(talk, index))[1],
        lambda state: state["leader"] == -1,
        patience_s=PATIENCE_S,
    )


def scene(address: str, second: Path) -> dict[str, Any]:
    """Fail the second directory, and ask about a partition of it and one of the first."""
    talk = Talk(address)
    talk.make_topic(TOPIC, COUNT)
    for index in range(COUNT):
        assert produce_error(talk, index, -1) == 0
    lost, kept = partition_in(second), partition_in(second.with_name("data"))
    second.rename(second.with_name("gone"))
    until_offline(talk, lost)
    seen: dict[str, Any] = {"lost": partition_metadata(talk, lost)}
    seen["kept"] = partition_metadata(talk, kept)
    for name, index in (("lost", lost), ("kept", kept)):
        seen[f"produce {name}"] = [produce_error(talk, index, acks) for acks in (1, -1)]
        seen[f"fetch {name}"] = [fetch_error(talk, index, version) for version in (4, 12)]
        seen[f"offsets {name}"] = offset_error(talk, index)
    seen["create"] = create_error(talk, "later", 2)
    seen["delete"] = delete_error(talk, TOPIC)
    talk.close()
    return seen


STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)
OLD_FETCH_ERROR = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)

SEEN_AT_APACHE = {
    "lost": {
        "error": int(ErrorCode.LEADER_NOT_AVAILABLE),
        "leader": -1,
        "epoch": 1,
        "replicas": [0],
        "isr": [0],
        "offline": [0],
    },
    "kept": {"error": 0, "leader": 0, "epoch": 0, "replicas": [0], "isr": [0], "offline": []},
    "produce lost": [STORAGE_ERROR, STORAGE_ERROR],
    "fetch lost": [OLD_FETCH_ERROR, STORAGE_ERROR],
    "offsets lost": STORAGE_ERROR,
    "produce kept": [0, 0],
    "fetch kept": [0, 0],
    "offsets kept": 0,
    "create": 0,
    "delete": 0,
}


@pytest.mark.parametrize("kind", ["odradek", pytest.param("apache", marks=pytest.mark.judge)])
def test_partitions_of_a_failed_directory_have_no_leader(kind: str, tmp_path: Path) -> None:
    with broker_with_two_directories(kind, tmp_path) as (address, second):
        assert scene(address, second) == SEEN_AT_APACHE


def test_restart_with_the_directory_brings_its_partitions_back(tmp_path: Path) -> None:
    second = tmp_path / "second"
    overrides = {**OVERRIDES, "log.dirs": f"{tmp_path / 'data'},{second}"}
    with odradek_broker(tmp_path, overrides=overrides) as broker:
        talk = Talk(broker.address)
        talk.make_topic(TOPIC, COUNT)
        lost = partition_in(second)
        second.rename(tmp_path / "gone")
        until_offline(talk, lost)
        talk.close()
        broker.kill()
        (tmp_path / "gone").rename(second)
        broker.start()
        talk = Talk(broker.address)
        talk.wait_for_topic(TOPIC, COUNT)
        state = partition_metadata(talk, lost)
        assert (state["leader"], state["epoch"], state["offline"]) == (0, 2, [])
        assert produce_error(talk, lost, -1) == 0
        talk.close()


@pytest.mark.parametrize("kind", ["odradek", pytest.param("apache", marks=pytest.mark.judge)])
def test_topic_over_an_orphaned_folder_is_refused_and_cannot_be_written(
    kind: str, tmp_path: Path
) -> None:
    """Apache's broker refuses the replica (INCONSISTENT_TOPIC_ID) and its controller takes no
    notice; ours refuses the topic."""
    folder = tmp_path / "data" / f"{TOPIC}-0"
    folder.mkdir(parents=True)
    (folder / "00000000000000000000.log").touch()
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w\n")
    with apache_node(tmp_path) if kind == "apache" else odradek_broker(tmp_path) as broker:
        talk = Talk(broker.address)
        if kind == "odradek":
            assert create_error(talk, TOPIC, 1) == ErrorCode.INVALID_TOPIC_EXCEPTION
        else:
            assert create_error(talk, TOPIC, 1) == 0
            assert partition_metadata(talk, 0)["leader"] == 0
            assert produce_error(talk, 0, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        talk.close()


def test_stop_without_the_folder_of_a_log_is_reported_and_leaves_its_directory_to_be_checked(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "data", tmp_path / "second"
    with odradek_broker(tmp_path, overrides={"log.dirs": f"{first},{second}"}) as broker:
        talk = Talk(broker.address)
        assert create_error(talk, TOPIC, COUNT) == ErrorCode.NONE
        for index in range(COUNT):
            assert produce_error(talk, index, -1) == ErrorCode.NONE
        talk.close()
        shutil.rmtree(first / f"{TOPIC}-{partition_in(first)}")
        process = broker.process
        assert broker.stop() == 0
        assert f"{first} could not be closed" in process.tail()
    assert not (first / ".kafka_cleanshutdown").exists()
    assert (second / ".kafka_cleanshutdown").exists()
