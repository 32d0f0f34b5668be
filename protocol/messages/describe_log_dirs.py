"""DescribeLogDirs (key 35): shows the directories of a broker and the sizes of the logs in them.

    2   flexible encoding (KIP-482)
    3   a top-level error code
    4   size and free space of the volume (KIP-827)
    5   cordoned directories (KIP-1066)

Source: kafka.apache.org/protocol, DescribeLogDirs.
"""

from __future__ import annotations

from odradek.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    ArrayOf,
    field,
    message,
    nested,
)


@nested
class DescribableLogDirTopic:
    topic: str = field(STRING, "0+")
    partitions: list[int] = field(ArrayOf(INT32), "0+")


@message(api_key=35, versions="0-5", flexible="2+")
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = field(
        ArrayOf(DescribableLogDirTopic), "0+", nullable="0+"
    )
    """None asks for all."""


@nested
class DescribeLogDirsPartition:
    partition_index: int = field(INT32, "0+")
    partition_size_bytes: int = field(INT64, "0+")
    offset_lag: int = field(INT64, "0+")
    """Offsets by which the log end is below the high watermark; of a future replica, below the log
    end of the current one."""
    is_future_key: bool = field(BOOL, "0+")
    """The replica is being moved into this directory."""


@nested
class DescribeLogDirsTopic:
    name: str = field(STRING, "0+")
    partitions: list[DescribeLogDirsPartition] = field(ArrayOf(DescribeLogDirsPartition), "0+")


@nested
class DescribeLogDirsResult:
    error_code: int = field(INT16, "0+")
    log_dir: str = field(STRING, "0+")
    topics: list[DescribeLogDirsTopic] = field(ArrayOf(DescribeLogDirsTopic), "0+")
    total_bytes: int = field(INT64, "4+", default=-1)
    """-1 if unknown."""
    usable_bytes: int = field(INT64, "4+", default=-1)
    """-1 if unknown."""
    is_cordoned: bool = field(BOOL, "5+", default=False)


@message(api_key=35, versions="0-5", flexible="2+")
class DescribeLogDirsResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "3+", default=0)
    results: list[DescribeLogDirsResult] = field(ArrayOf(DescribeLogDirsResult), "0+")
