"""`odradek metadata-quorum`: the flags, lines and exit codes of `kafka-metadata-quorum.sh` 3.9.

    describe --status         the node that coordinates, and the brokers that joined it
    describe --replication    a row for each of them; --human-readable shows ages, not times

Exit codes: 0 success; 1 failure (a line on stderr gives the reason); 2 an invalid command line.
Differs from Kafka: --bootstrap-controller, add-controller and remove-controller are not served,
since one node coordinates, whose listener serves no requests of Kafka.
Source: Kafka 3.9's MetadataQuorumCommand.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Final

from odradek.protocol.messages.describe_quorum import (
    DescribeQuorumNode,
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    ReplicaState,
)
from odradek.protocol.topic_partition import ZERO_UUID
from odradek.tools.argument_parser import ArgumentParser, file_path, run_parsed
from odradek.tools.arguments import add_arguments
from odradek.tools.client import Client, NotServedError
from odradek.tools.client_config import open_client
from odradek.tools.errors import ToolError, check, refused
from odradek.tools.tables import print_table
from odradek.tools.topics.render import topic_id_text

METADATA_TOPIC: Final = "__cluster_metadata"
HEADERS: Final = (
    *("NodeId", "DirectoryId", "LogEndOffset", "Lag"),
    *("LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"),
)
NOT_SERVED: Final = "The node does not support DESCRIBE_QUORUM"


def build_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="kafka-metadata-quorum",
        description="Describe which node coordinates, and the brokers that joined it.",
    )
    add_arguments(parser, "metadata-quorum", {"--command-config": file_path})
    commands = parser.add_subparsers(dest="command", required=True, parser_class=ArgumentParser)
    describing = commands.add_parser("describe", help="describe the quorum")
    add_arguments(describing, "metadata-quorum describe")
    return parser


def main(arguments: Sequence[str]) -> int:
    return run_parsed(build_parser(), arguments, _act)


def _act(options: argparse.Namespace) -> int:
    _check(options)
    with open_client(options.bootstrap_server, options.command_config) as client:
        response = _quorum(client)
        (topic,) = response.topics
        (quorum,) = topic.partitions
        if options.replication:
            _print_replication(quorum, is_human_readable=options.human_readable)
        else:
            _print_status(client, quorum, response.nodes)
    return 0


def _check(options: argparse.Namespace) -> None:
    """raises  ToolError"""
    if options.status and options.replication:
        what = "Only one of --status or --replication should be specified with describe"
        raise ToolError(f"{what} sub-command")
    if not options.status and not options.replication:
        what = "One of --status or --replication must be specified with describe"
        raise ToolError(f"{what} sub-command")
    if options.status and options.human_readable:
        raise ToolError("The option --human-readable is only supported along with --replication")


def _quorum(client: Client) -> DescribeQuorumResponse:
    """The response, which describes one partition.

    raises  ToolError
    """
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    try:
        response = client.any_broker(DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse)
    except NotServedError as error:
        raise ToolError(NOT_SERVED) from error
    check(response)
    partitions = [row for topic in response.topics for row in topic.partitions]
    if len(partitions) != 1 or len(response.topics) != 1:
        raise ToolError(f"The response describes {len(partitions)} partitions, not one")
    if partitions[0].error_code:
        raise refused(partitions[0].error_code, partitions[0].error_message)
    if not any(
        voter.replica_id == partitions[0].leader_id for voter in partitions[0].current_voters
    ):
        raise ToolError("The quorum has no leader at the moment")
    return response


def _print_status(
    client: Client, quorum: DescribeQuorumResponsePartitionData, nodes: Sequence[DescribeQuorumNode]
) -> None:
    leader = _leader(quorum)
    slowest = min(quorum.current_voters, key=lambda voter: voter.log_end_offset)
    lag_ms = -1
    if slowest.log_end_offset == leader.log_end_offset:
        lag_ms = 0
    elif min(leader.last_caught_up_timestamp_ms, slowest.last_caught_up_timestamp_ms) >= 0:
        lag_ms = leader.last_caught_up_timestamp_ms - slowest.last_caught_up_timestamp_ms
    rows = {
        "ClusterId": client.metadata([]).cluster_id,
        "LeaderId": quorum.leader_id,
        "LeaderEpoch": quorum.leader_epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": leader.log_end_offset - slowest.log_end_offset,
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": _replicas_text(quorum.current_voters, nodes),
        "CurrentObservers": _replicas_text(quorum.observers, nodes),
    }
    for name, value in rows.items():
        print(f"{name + ':':24}{value}")


def _leader(quorum: DescribeQuorumResponsePartitionData) -> ReplicaState:
    return next(voter for voter in quorum.current_voters if voter.replica_id == quorum.leader_id)


def _replicas_text(replicas: Sequence[ReplicaState], nodes: Sequence[DescribeQuorumNode]) -> str:
    """JSON of the replicas, with the listeners of those that `nodes` contains."""
    listeners = {node.node_id: node.listeners for node in nodes}
    texts = []
    for replica in replicas:
        directory = replica.replica_directory_id
        shown = "null" if directory == ZERO_UUID else f'"{topic_id_text(directory)}"'
        text = f'"id": {replica.replica_id}, "directoryId": {shown}'
        endpoints = [
            f'"{row.name}://[{row.host}]:{row.port}"'
            if ":" in row.host
            else f'"{row.name}://{row.host}:{row.port}"'
            for row in listeners.get(replica.replica_id, [])
        ]
        if endpoints:
            text += f', "endpoints": [{", ".join(endpoints)}]'
        texts.append(f"{{{text}}}")
    return f"[{', '.join(texts)}]"


def _print_replication(
    quorum: DescribeQuorumResponsePartitionData, *, is_human_readable: bool
) -> None:
    leader = _leader(quorum)
    followers = [voter for voter in quorum.current_voters if voter is not leader]
    now_ms = time.time_ns() // 1_000_000

    def time_text(time_ms: int) -> str:
        if time_ms < 0:
            return "-1"
        return f"{now_ms - time_ms} ms ago" if is_human_readable else str(time_ms)

    rows = [
        (
            replica.replica_id,
            topic_id_text(replica.replica_directory_id),
            replica.log_end_offset,
            leader.log_end_offset - replica.log_end_offset,
            time_text(replica.last_fetch_timestamp_ms),
            time_text(replica.last_caught_up_timestamp_ms),
            status,
        )
        for status, replicas in (
            ("Leader", [leader]),
            ("Follower", followers),
            ("Observer", quorum.observers),
        )
        for replica in replicas
    ]
    print_table(HEADERS, rows)
