"""Plays command lines of the tools for clusters, ours and Apache's, on a cluster of three brokers.

A line is the name of a tool and its arguments, quoted as for a shell; the address of the cluster is
added.  These words start other lines:

    ! TOOL ARGUMENT...          run without the address
    file NAME <<< TEXT          write a file, which command lines name as @/NAME
    produce TOPIC PARTITION COUNT BYTES    write COUNT batches of one record
    settle                      wait until no replica moves, all are in sync and all brokers agree
    replicated TOPIC PARTITION ID,ID  wait until all brokers know these replicas
    configured ID|TOPIC NAME VALUE COUNT    wait until it has this config from COUNT sources

DIR-1-2 stands for the second log directory of broker 1, BROKERS for the address of the cluster.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any, Final

from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.protocol.schema import ZERO_UUID
from odradek.tools.client import Client
from odradek.tools.zookeeper import open_znodes
from tests.odradek.console_tools import our_tool_here
from tests.odradek.consumer_groups_conversation import with_tables_on_one_line
from tests.odradek.topics_tools import as_kafka_exits, masked
from tests.support.apache import ToolResult
from tests.support.apache_cluster import BROKER_IDS, OVERRIDES, log_directories
from tests.support.broker_cluster import broker_cluster
from tests.support.zookeeper import zookeeper

CONVERSATIONS: Final = Path(__file__).parent / "cluster_conversations"
NAMES: Final = (
    "admin",
    "configs",
    "groups",
    "leader_election",
    "log_dirs",
    "reassign_partitions",
    "reassign_throttled",
)
WAIT_S: Final = 60.0
LINES_SHOWN: Final = 40
POLL_S: Final = 0.05
PRODUCE_VERSION: Final = 9

Tool = Callable[[str, Sequence[str]], ToolResult]
"""(name, arguments) -> result."""

COORDINATOR: Final = re.compile(r"ADDRESS-\d +\(\d\)")
"""Of the partition of a group, which is placed at random."""
CLUSTER_ID: Final = re.compile(r"Cluster ID: [\w-]{22}")
IN_SYNC: Final = re.compile(r"Isr: ([\d,]+)")
"""In the order in which replicas came into sync."""
_LOGGED: Final = re.compile(r"\[\d{4}-\d\d-\d\d ")
"""Warnings, which Apache's tools do not log here."""
_STACK: Final = re.compile(r"\tat |\t\.\.\. |Caused by: |\tSuppressed: ")
_UNCAUGHT: Final = re.compile(r'^Exception in thread "main" [\w.$]+: ')
_EXCEPTION: Final = re.compile(r"([a-z]\w*\.)+(\w+\$)?\w+(Exception|Error)(: |$)")


class TestCluster:
    """The addresses of a cluster, and the folder that contains its log directories."""

    __test__ = False

    def __init__(self, bootstrap: str, zookeeper: str, folder: Path) -> None:
        """zookeeper  with the chroot"""
        self.bootstrap = bootstrap
        self.zookeeper = zookeeper
        self.folder = folder


@contextmanager
def our_cluster(folder: Path) -> Iterator[TestCluster]:
    """Three of our brokers on a ZooKeeper, with the ids, racks and directories of Apache's."""
    own = {
        broker_id: {
            "broker.rack": f"rack-{broker_id}",
            "log.dirs": ",".join(map(str, log_directories(folder, broker_id))),
        }
        for broker_id in BROKER_IDS
    }
    settings = {**OVERRIDES, "min.insync.replicas": "1"}
    with (
        zookeeper(folder / "zookeeper") as address,
        broker_cluster(
            folder, zookeeper_connect=f"{address}/kafka", overrides=settings, of_broker=own
        ) as brokers,
    ):
        yield TestCluster(brokers.bootstrap, f"{address}/kafka", folder)


def recorded(name: str) -> Path:
    """The output of Apache's tools for a conversation."""
    return CONVERSATIONS / f"{name}_3_9_2.txt"


def our_tool(name: str, arguments: Sequence[str]) -> ToolResult:
    """`odradek NAME` in this process."""
    return our_tool_here(name, arguments)


def play(tool: Tool, cluster: TestCluster, name: str, files: Path) -> str:
    """Run the command lines of a conversation; returns each with its output and its exit code.

    files    a folder for the files that the conversation writes
    returns  a text that does not depend on addresses and folders
    """
    lines_shown: list[str] = []
    with Client(cluster.bootstrap) as client:
        for line in (CONVERSATIONS / f"{name}.txt").read_text().splitlines():
            lines_shown.append(f"$ {line}")
            try:
                lines_shown += _step(tool, cluster, client, line, files)
            except AssertionError as error:
                last = "\n".join(lines_shown[-LINES_SHOWN:])
                raise AssertionError(f"{error} after\n{last}") from error
    settle(cluster)
    text = masked(_with_places("\n".join(lines_shown), cluster, files))
    text = CLUSTER_ID.sub("Cluster ID: ID", text)
    return COORDINATOR.sub("ADDRESS (ID)", text) + "\n"


def _step(
    tool: Tool, cluster: TestCluster, client: Client, line: str, files: Path
) -> Iterable[str]:
    command, _, text = line.partition(" <<< ")
    words = _words(command, cluster, files)
    if words[0] == "file":
        (files / words[1]).write_text(_without_places(text, cluster, files))
    elif words[0] == "produce":
        produce(client, words[1], *map(int, words[2:]))
    elif words[0] == "settle":
        _wait(partial(_is_settled, client))
    elif words[0] == "replicated":
        _wait(partial(_is_replicated, client, words[1], int(words[2]), words[3]))
    elif words[0] == "configured":
        _wait(partial(_is_configured, client, *words[1:]))
    else:
        return _run(tool, cluster, words)
    return ()


def settle(cluster: TestCluster) -> None:
    """Wait until no replica moves, all are in sync, all brokers agree and no topic is deleted."""
    with open_znodes(cluster.zookeeper) as znodes:
        _wait(lambda: not znodes.children("/admin/delete_topics"))
    with Client(cluster.bootstrap) as client:
        _wait(partial(_is_settled, client))


def _words(command: str, cluster: TestCluster, files: Path) -> list[str]:
    lexer = shlex.shlex(_without_places(command, cluster, files), posix=True)
    lexer.whitespace_split = True
    lexer.escape = lexer.commenters = ""
    return list(lexer)


def _places(cluster: TestCluster) -> Iterator[tuple[str, str]]:
    """Word and path of each log directory; longer paths come first."""
    for broker_id in BROKER_IDS:
        for index, path in reversed([*enumerate(log_directories(cluster.folder, broker_id), 1)]):
            yield f"DIR-{broker_id}-{index}", str(path)


def _without_places(text: str, cluster: TestCluster, files: Path) -> str:
    for word, path in _places(cluster):
        text = text.replace(word, path)
    return text.replace("@/", f"{files}/").replace("BROKERS", cluster.bootstrap)


def _with_places(text: str, cluster: TestCluster, files: Path) -> str:
    for word, path in _places(cluster):
        text = text.replace(path, word)
    text = text.replace(f"{files}/", "@/").replace(cluster.bootstrap, "ADDRESS")
    for broker_id, address in zip(BROKER_IDS, cluster.bootstrap.split(","), strict=True):
        host, _, port = address.partition(":")
        text = text.replace(address, f"ADDRESS-{broker_id}").replace(port, f"PORT-{broker_id}")
        assert host not in ("", port)
    return text


def _run(tool: Tool, cluster: TestCluster, words: list[str]) -> Iterator[str]:
    if words[0] == "!":
        name, arguments = words[1], words[2:]
    else:
        option = "--broker-list" if words[0] == "replica-verification" else "--bootstrap-server"
        name, arguments = words[0], [option, cluster.bootstrap, *words[1:]]
    result = tool(name, arguments)
    keeps_exceptions = name == "configs"
    output = with_tables_on_one_line(result.output)
    for line in printed(output, keeps_exceptions):
        yield f"  {line}".rstrip()
    for line in printed(result.errors, keeps_exceptions):
        if line and not _LOGGED.match(line):
            yield f"  ! {line}"
    yield f"  exit code {as_kafka_exits(result.exit_code)}"


def printed(text: str, keeps_exceptions: bool) -> Iterator[str]:
    """The lines without stack traces and help, which only one of the tools prints.

    keeps_exceptions  leave the first line of a stack trace
    """
    lines = text.splitlines()
    is_stack = False
    for line, following in zip(lines, [*lines[1:], "end"], strict=False):
        if line.startswith(("Option  ", "--")):
            return
        is_first = _EXCEPTION.match(line) and (not following or _STACK.match(following))
        was_stack, is_stack = is_stack, bool(is_first or _STACK.match(line))
        if is_stack and (keeps_exceptions and is_first):
            yield line
        elif not is_stack and (line or not was_stack):
            line = _UNCAUGHT.sub("", line)
            yield IN_SYNC.sub(lambda isr: f"Isr: {','.join(sorted(isr[1].split(',')))}", line)


def produce(client: Client, topic: str, partition: int, count: int, size: int) -> None:
    """Write `count` batches of one record with a value of `size` bytes."""
    now_ms = int(time() * 1000)  # Older records would be deleted.
    for number in range(count):
        record = Record(b"key", b"v" * size, timestamp_ms=now_ms + number)
        batch = PartitionProduceData(index=partition, records=memoryview(build_batch([record])))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[batch])],
        )
        _wait(partial(_is_stored, client, topic, partition, request))


def _is_stored(client: Client, topic: str, partition: int, request: ProduceRequest) -> bool:
    """Whether the leader has stored the batch; nothing is stored by a broker that is not it."""
    (described,) = client.metadata([topic]).topics
    leaders = [
        state.leader_id for state in described.partitions if state.partition_index == partition
    ]
    if not leaders or leaders[0] < 0:
        return False
    connection = client.broker(leaders[0])
    response = connection.request(request, ProduceResponse, PRODUCE_VERSION)
    return not response.responses[0].partition_responses[0].error_code


def _wait(is_done: Callable[[], bool]) -> None:
    deadline = monotonic() + WAIT_S
    while not is_done():
        assert monotonic() < deadline, f"{is_done} is not done after {WAIT_S} s"
        sleep(POLL_S)


def _is_settled(client: Client) -> bool:
    request = ListPartitionReassignmentsRequest(timeout_ms=30_000, topics=None)
    moving = client.controller(request, ListPartitionReassignmentsResponse)
    if moving.topics or moving.error_code:
        return False
    metadata = client.metadata()
    images = [_image(client, broker.node_id) for broker in metadata.brokers]
    if None in images or any(image != images[0] for image in images):
        return False
    return not any(
        partition.is_future_key
        for broker in metadata.brokers
        for directory in _describe_directories(client, broker.node_id)
        for topic in directory.topics
        for partition in topic.partitions
    )


def _image(client: Client, broker_id: int) -> list[Any] | None:
    """The partitions as a broker knows them; None when a replica is not in sync."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    response = client.broker(broker_id).request(request, MetadataResponse)
    image: list[Any] = [len(response.brokers)]
    for topic in sorted(response.topics, key=lambda topic: topic.name or ""):
        for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index):
            if (
                sorted(partition.isr_nodes) != sorted(partition.replica_nodes)
                or partition.leader_id < 0
            ):
                return None
            image.append(
                (
                    topic.name,
                    partition.partition_index,
                    partition.leader_id,
                    partition.replica_nodes,
                )
            )
    return image


def _is_replicated(client: Client, topic: str, partition: int, replicas: str) -> bool:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic, topic_id=ZERO_UUID)],
        allow_auto_topic_creation=False,
    )
    responses = [
        client.broker(broker.node_id).request(request, MetadataResponse)
        for broker in client.metadata([]).brokers
    ]
    return all(
        ",".join(map(str, state.replica_nodes)) == replicas
        for response in responses
        for state in response.topics[0].partitions
        if state.partition_index == partition
    )


def _is_configured(client: Client, entity: str, name: str, value: str, count: str) -> bool:
    """Whether a broker says so of itself, or all brokers of a topic."""
    is_broker = entity.isdecimal()
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=4 if is_broker else 2, resource_name=entity, configuration_keys=[name]
            )
        ],
        include_synonyms=True,
    )
    brokers = [broker.node_id for broker in client.metadata([]).brokers]
    for broker in [int(entity)] if is_broker else brokers:
        response = client.broker(broker).request(request, DescribeConfigsResponse)
        rows = response.results[0].configs
        synonyms = rows[0].synonyms if rows else []
        sources = ["null" if synonym.value is None else synonym.value for synonym in synonyms]
        if len(sources) != int(count) or sources[:1] not in ([], [value]):
            return False
    return True


def _describe_directories(client: Client, broker_id: int) -> Sequence[DescribeLogDirsResult]:
    request = DescribeLogDirsRequest(topics=None)
    connection = client.broker(broker_id)
    return connection.request(request, DescribeLogDirsResponse).results
