"""DescribeLogDirs (key 35): shows the directories of a broker and the sizes of the logs in them.

    2   flexible encoding (KIP-482)
    3   a top-level error code
    4   size and free space of the volume (KIP-827)
    5   cordoned directories (KIP-1066)

Source: kafka.apache.org/protocol, DescribeLogDirs.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class DescribableLogDirTopic:
    topic: str = field("string", "0+")
    partitions: list[int] = field(["int32"], "0+")


@message(api_key=35, versions="0-5", flexible="2+")
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = field(
        [DescribableLogDirTopic], "0+", nullable="0+"
    )
    """None asks for all."""


@nested
class DescribeLogDirsPartition:
    partition_index: int = field("int32", "0+")
    partition_size_bytes: int = field("int64", "0+")
    offset_lag: int = field("int64", "0+")
    """Offsets by which the log end is below the high watermark; of a future replica, below the log
    end of the current one."""
    is_future_key: bool = field("bool", "0+")
    """The replica is being moved into this directory."""


@nested
class DescribeLogDirsTopic:
    name: str = field("string", "0+")
    partitions: list[DescribeLogDirsPartition] = field([DescribeLogDirsPartition], "0+")


@nested
class DescribeLogDirsResult:
    error_code: int = field("int16", "0+")
    log_dir: str = field("string", "0+")
    topics: list[DescribeLogDirsTopic] = field([DescribeLogDirsTopic], "0+")
    total_bytes: int = field("int64", "4+", default=-1)
    """-1 if unknown."""
    usable_bytes: int = field("int64", "4+", default=-1)
    """-1 if unknown."""
    is_cordoned: bool = field("bool", "5+", default=False)


@message(api_key=35, versions="0-5", flexible="2+")
class DescribeLogDirsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "3+", default=0)
    results: list[DescribeLogDirsResult] = field([DescribeLogDirsResult], "0+")
