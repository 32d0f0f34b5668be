"""`odradek log-dirs`: the flags, lines and exit codes of `kafka-log-dirs.sh` 3.9.

Exit codes: 0 success; 1 failure; 2 an invalid command line.  The reason is on stderr.
Source: Kafka 3.9's LogDirsCommand.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.errors import ToolError, error_name, partition_text, refused
from odradek.tools.json_files import to_json
from odradek.tools.options import CLIENT_FLAGS, Options, parse_integer, read_flags
from odradek.tools.run_command import run_with_client

WHAT_IT_DOES: Final = "This tool helps to query log directory usage on the specified brokers."

FLAGS: Final = (*CLIENT_FLAGS, *read_flags("log-dirs"))


def main(arguments: Sequence[str]) -> int:
    return run_with_client(arguments, WHAT_IT_DOES, describe, FLAGS, ["describe"])


def describe(client: Client, options: Options) -> None:
    """Print the log directories as one line of JSON.

    raises  OptionsError, ToolError
    """
    topics = _words(options, "topic-list")
    cluster = sorted(broker.node_id for broker in client.metadata([]).brokers)
    ids = sorted({parse_integer(word) for word in _words(options, "broker-list")})
    missing = [broker for broker in ids if broker not in cluster]
    if missing:
        raise ToolError(
            f"ERROR: The given brokers do not exist from --broker-list: {_ids(missing)}. Current "
            f"existent brokers: {_ids(cluster)}"
        )
    brokers = ids or cluster
    print("Querying brokers for log directories information")
    directories = [
        {
            "broker": broker,
            "logDirs": [_directory(result, topics) for result in _query(client, broker)],
        }
        for broker in brokers
    ]
    print(f"Received log directory information from brokers {_ids(brokers)}")
    print(to_json({"brokers": directories, "version": 1}))


def _words(options: Options, name: str) -> list[str]:
    return [word for word in (options.value(name) or "").split(",") if word]


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _query(client: Client, broker: int) -> list[DescribeLogDirsResult]:
    response = client.broker(broker).request(
        DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse
    )
    if not response.results:
        raise refused(response.error_code or ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    by_path = {result.log_dir: result for result in response.results}
    return [by_path[path] for path in sorted(by_path)]


def _directory(result: DescribeLogDirsResult, topics: Collection[str]) -> dict[str, Any]:
    replicas = {
        TopicPartition(topic.name, partition.partition_index): partition
        for topic in result.topics
        for partition in topic.partitions
    }
    shown = [replica for replica in sorted(replicas) if not topics or replica.topic in topics]
    return {
        "partitions": [
            {
                "partition": partition_text(partition),
                "size": replicas[partition].partition_size_bytes,
                "offsetLag": replicas[partition].offset_lag,
                "isFuture": replicas[partition].is_future_key,
            }
            for partition in shown
        ],
        "error": error_name(result.error_code) if result.error_code else None,
        "logDir": result.log_dir,
    }
