"""`odradek topics`: the flags, lines and exit codes of `kafka-topics.sh` 3.9.

Exit codes: 0 success; 1 failure; 2 an invalid command line.  One line gives the reason: on stderr
before the tool connects, on stdout afterwards, as Kafka's tool does.
Differs from Kafka: brokers that cannot be reached are reported at once, not after a minute; an
invalid command line exits with 2 instead of 1.
Source: Kafka 3.9's TopicCommand.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.topic_partition import ZERO_UUID
from odradek.tools.client import Client, ClientError
from odradek.tools.client_config import open_client
from odradek.tools.options import Options, OptionsError
from odradek.tools.run_command import run_command
from odradek.tools.topics.describe import describe
from odradek.tools.topics.errors import TopicsError, check
from odradek.tools.topics.options import FLAGS, parse_options
from odradek.tools.topics.queries import find_topics
from odradek.tools.topics.topic_spec import COLLISIONS, TopicSpec, check_new, read_spec

TIMEOUT_MS: Final = 30_000
"""The timeout in requests to the controller; Kafka: request.timeout.ms."""


def main(arguments: Sequence[str]) -> int:
    """Run one action; returns the exit code."""
    return run_command(arguments, FLAGS, parse_options, _act)


def _act(options: Options) -> int:
    with closing(client_of(options)) as client:
        try:
            act(client, options)
        except (TopicsError, ClientError, OptionsError) as error:
            print(f"Error while executing topic command : {error}")
            return error.exit_code if isinstance(error, OptionsError) else 1
    return 0


def client_of(options: Options) -> Client:
    """Create the client for the addresses in the options.

    raises  OptionsError, ClientError
    """
    config_path = options.value("command-config")
    bootstrap = options.value("bootstrap-server")
    zookeeper = options.value("zookeeper")
    if zookeeper is not None:
        from odradek.tools.zookeeper import bootstrap_of

        bootstrap = bootstrap_of(zookeeper)
    assert bootstrap is not None, "parse_options requires one of the two"
    return open_client(bootstrap, config_path)


def act(client: Client, options: Options) -> None:
    """Run the action that the options name.

    raises  TopicsError, ClientError, OptionsError
    """
    if options.has("create"):
        create(client, options)
    elif options.has("alter"):
        alter(client, options)
    elif options.has("list"):
        list_topics(client, options)
    elif options.has("describe"):
        describe(client, options)
    else:
        delete(client, options)


def create(client: Client, options: Options) -> None:
    """Create one topic."""
    spec = read_spec(options)
    if "." in spec.name or "_" in spec.name:
        print(COLLISIONS)
    check_new(spec)
    request = CreateTopicsRequest(
        topics=[_new_topic(spec)], timeout_ms=TIMEOUT_MS, validate_only=False
    )
    response = client.controller(request, CreateTopicsResponse)
    for topic in response.topics:
        if topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and options.has("if-not-exists"):
            return
        check(topic.error_code, topic.error_message)
    print(f"Created topic {spec.name}.")


def _new_topic(spec: TopicSpec) -> CreatableTopic:
    return CreatableTopic(
        name=spec.name,
        num_partitions=-1 if spec.partitions is None else spec.partitions,
        replication_factor=-1 if spec.replication_factor is None else spec.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in enumerate(spec.assignment)
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in spec.configs.items()
        ],
    )


def list_topics(client: Client, options: Options) -> None:
    """Print the names of topics, sorted, one per line; an empty line when there are none."""
    names = find_topics(
        client,
        options.value("topic"),
        exclude_internal=options.has("exclude-internal"),
        must_exist=False,
    )
    print("\n".join(names))


def alter(client: Client, options: Options) -> None:
    """Add partitions to every topic that matches."""
    spec = read_spec(options)
    assert spec.partitions is not None, "parse_options requires a number of partitions"
    names = _existing_topics(client, options)
    if not names:
        return
    counts: dict[str | None, int] = {}
    if spec.assignment:
        for topic in client.metadata(names).topics:
            check(topic.error_code)
            counts[topic.name] = len(topic.partitions)
    topics = [
        CreatePartitionsTopic(
            name=name,
            count=spec.partitions,
            assignments=[
                CreatePartitionsAssignment(broker_ids=brokers)
                for brokers in spec.assignment[counts[name] :]
            ]
            if spec.assignment
            else None,
        )
        for name in names
    ]
    response = client.controller(
        CreatePartitionsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=False),
        CreatePartitionsResponse,
    )
    for result in response.results:
        check(result.error_code, result.error_message)


def delete(client: Client, options: Options) -> None:
    """Delete every topic that matches."""
    names = _existing_topics(client, options)
    if not names:
        return
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names],
        topic_names=names,
        timeout_ms=TIMEOUT_MS,
    )
    response = client.controller(request, DeleteTopicsResponse)
    for result in response.responses:
        check(result.error_code, result.error_message)


def _existing_topics(client: Client, options: Options) -> list[str]:
    return find_topics(
        client,
        options.value("topic"),
        exclude_internal=options.has("exclude-internal"),
        must_exist=not options.has("if-exists"),
    )
