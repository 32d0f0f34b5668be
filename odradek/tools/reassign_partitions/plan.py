"""The reassignments that a JSON file asks for.

Source: Kafka 3.9's ReassignPartitionsCommand (parsePartitionReassignmentData,
parseExecuteAssignmentArgs, parseGenerateAssignmentArgs, formatAsReassignmentJson).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.errors import ToolError, partition_text
from odradek.tools.json_files import JsonReader, parse_json, to_json
from odradek.tools.options import parse_integer

ANY: Final = "any"
"""A log directory that the broker chooses."""
VERSION: Final = 1

ReplicaAssignment = Mapping[TopicPartition, Sequence[int]]
Value = TypeVar("Value", bound=Hashable)


class TopicPartitionReplica(NamedTuple):
    """A replica of a partition; ordered as Kafka's tool prints them."""

    broker: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


class ReassignmentPlan(NamedTuple):
    """The content of a file."""

    partitions: list[tuple[TopicPartition, list[int]]]
    """In the order of the file; a partition may occur twice."""
    directories: dict[TopicPartitionReplica, str]
    """Only replicas for which the file names one."""


def parse_plan(text: str) -> ReassignmentPlan:
    """Parse a --reassignment-json-file.

    raises  ToolError
    """
    data = parse_json(text)
    if data is None:
        raise ToolError("The input string is not a valid JSON" if text else "it is empty")
    _check_version(data)
    plan = ReassignmentPlan([], {})
    rows = data.field("partitions")
    for row in [] if rows is None else rows.elements():
        partition = TopicPartition(
            row.required("topic").text(), row.required("partition").integer()
        )
        replicas = [element.integer() for element in row.required("replicas").list()]
        given = row.field("log_dirs")
        directories = (
            [ANY] * len(replicas) if given is None else [element.text() for element in given.list()]
        )
        if len(replicas) != len(directories):
            names = ", ".join(directories)
            raise ToolError(
                f"Size of replicas list {replicas} is different from size of log dirs list "
                f"[{names}] for partition {partition_text(partition)}"
            )
        plan.partitions.append((partition, replicas))
        plan.directories.update(
            (TopicPartitionReplica(broker, *partition), directory)
            for broker, directory in zip(replicas, directories, strict=True)
            if directory != ANY
        )
    return plan


def _check_version(data: JsonReader) -> None:
    version = data.field("version")
    number = VERSION if version is None else version.integer()
    if number != VERSION:
        raise ToolError(f"Not supported version field value {number}")


def check_executable(plan: ReassignmentPlan) -> dict[TopicPartition, list[int]]:
    """The new replicas of each partition.

    raises  ToolError for an empty list and for duplicates
    """
    if not plan.partitions:
        raise ToolError("Partition reassignment list cannot be empty")
    if not all(replicas for _, replicas in plan.partitions):
        raise ToolError("Partition replica list cannot be empty")
    repeated = sorted(_repeated(partition for partition, _ in plan.partitions))
    if repeated:
        names = ",".join(map(partition_text, repeated))
        raise ToolError(f"Partition reassignment contains duplicate topic partitions: {names}")
    wrong = [
        f"{partition_text(partition)} contains multiple entries for "
        + ",".join(map(str, sorted(_repeated(replicas))))
        for partition, replicas in plan.partitions
        if _repeated(replicas)
    ]
    if wrong:
        raise ToolError(
            f"Partition replica lists may not contain duplicate entries: {'. '.join(wrong)}"
        )
    return dict(plan.partitions)


def _repeated(values: Iterable[Value]) -> list[Value]:
    elements = list(values)
    return [value for value in dict.fromkeys(elements) if elements.count(value) > 1]


def parse_brokers(text: str) -> list[int]:
    """Parse --broker-list.

    raises  ToolError
    """
    words = text.split(",")
    while len(words) > 1 and not words[-1]:
        words.pop()
    brokers = [parse_integer(word) for word in words]
    repeated = sorted(_repeated(brokers))
    if repeated:
        raise ToolError(f"Broker list contains duplicate entries: {repeated}")
    return brokers


def parse_topics(text: str) -> list[str]:
    """Parse a --topics-to-move-json-file.

    raises  ToolError
    """
    data = parse_json(text)
    if data is None:
        raise ToolError("The input string is not a valid JSON")
    _check_version(data)
    rows = data.field("topics")
    topics = [] if rows is None else [row.required("topic").text() for row in rows.elements()]
    repeated = sorted(_repeated(topics))
    if repeated:
        names = ", ".join(repeated)
        raise ToolError(f"List of topics to reassign contains duplicate entries: [{names}]")
    return topics


def format_assignment(assignment: ReplicaAssignment) -> str:
    """The JSON of an assignment, by topic and partition."""
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
            "log_dirs": [ANY] * len(replicas),
        }
        for partition, replicas in sorted(assignment.items())
    ]
    return to_json({"version": VERSION, "partitions": partitions})
