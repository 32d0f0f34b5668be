"""A client moves a replica to another log directory while another one writes to it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.logs import batch
from tests.support.node_thread import running_node
from tests.support.pauses import pause
from tests.support.wire import Wire

PATIENCE_S = 60.0
BROKER = 4
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def one_record() -> bytes:
    return bytes(batch(int(time.time() * 1_000), value=b"x" * 1_000).view)


def produce(wire: Wire) -> int:
    records = memoryview(one_record())
    data = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name="orders", partition_data=[data])],
    )
    (partition,) = wire.call(request, 9).responses[0].partition_responses
    return int(partition.error_code)


def set_rate(wire: Wire, rate: str) -> None:
    resource = AlterConfigsResource(
        resource_type=BROKER,
        resource_name="0",
        configs=[AlterableConfig(name=RATE, config_operation=0, value=rate)],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    (result,) = wire.call(request, 1).responses
    assert result.error_code == 0, result


def move(wire: Wire, path: Path) -> int:
    topic = AlterReplicaLogDirTopic(name="orders", partitions=[0])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(path), topics=[topic])])
    (result,) = wire.call(request, 2).results
    (partition,) = result.partitions
    return int(partition.error_code)


def described(wire: Wire) -> dict[str, Any]:
    """Per directory the description of the partition."""
    topics = [DescribableLogDirTopic(topic="orders", partitions=[0])]
    response = wire.call(DescribeLogDirsRequest(topics=topics), 4)
    return {
        Path(result.log_dir).name: result.topics[0].partitions[0]
        for result in response.results
        if result.topics
    }


def records(wire: Wire, end_offset: int) -> int:
    """How many bytes of records a consumer gets."""
    size = offset = 0
    while offset < end_offset:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic="orders", partitions=[partition])],
        )
        (fetched,) = wire.call(request, 12).responses[0].partitions
        assert fetched.error_code == 0
        data = bytes(fetched.records)
        size += len(data)
        offset += len(data) // len(one_record())
    return size


def test_replica_is_moved_while_it_is_written_to(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    overrides = {"log.dirs": ",".join(map(str, folders))}
    with running_node(tmp_path, overrides) as address, Wire(address) as wire:
        topic = CreatableTopic(
            name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        (made,) = wire.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics
        assert made.error_code == 0
        while ErrorCode(produce(wire)) is not ErrorCode.NONE:
            pass
        for _ in range(199):
            assert produce(wire) == 0
        (home,) = described(wire)
        target = next(each for each in folders if each.name != home)
        set_rate(wire, "20000")
        assert move(wire, target) == 0
        both = described(wire)
        assert not both[home].is_future_key
        assert both[target.name].is_future_key
        assert both[target.name].offset_lag > 0
        for _ in range(50):
            assert produce(wire) == 0
        set_rate(wire, "1000000000")
        deadline = time.monotonic() + PATIENCE_S
        while (
            list(directories := described(wire)) != [target.name]
            or directories[target.name].is_future_key
        ):
            assert time.monotonic() < deadline, directories
            pause()
        assert produce(wire) == 0
        assert records(wire, 251) == 251 * len(one_record())
        assert move(wire, tmp_path / "third") == ErrorCode.LOG_DIR_NOT_FOUND
