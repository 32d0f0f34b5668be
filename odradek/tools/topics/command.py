"""`odradek topics`: the flags, lines and exit codes of `kafka-topics.sh` 3.9.

Exit codes: 0 done; 1 not done, and one line says why: on stderr while nothing was tried (a command
line that makes no sense, an address that is none), on stdout afterwards, as Kafka's tool does.
Differs from Kafka: brokers that cannot be reached are told at once, not after a minute.
Source: Kafka 3.9's TopicCommand.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.protocol.api_keys import ApiKey
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
from odradek.tools.client import CLIENT_ID, ZERO_ID, Client, ClientError
from odradek.tools.options import Options, OptionsError
from odradek.tools.tool import VERSION, run_tool
from odradek.tools.topics.describe import describe
from odradek.tools.topics.errors import TopicsError, check
from odradek.tools.topics.options import help_text, parse_options
from odradek.tools.topics.queries import find_topics
from odradek.tools.topics.requests import COLLISIONS, Wish, check_new, read_wish

TIMEOUT_MS: Final = 30_000
"""How long a broker may take for an action; Kafka: request.timeout.ms."""
SECURITY_PROTOCOL: Final = "security.protocol"


def main(arguments: Sequence[str]) -> int:
    """Run one action; returns the exit code."""
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        options = parse_options(arguments)
        if options.has("version"):
            print(VERSION)
            return 0
        client = open_client(options)
    except OptionsError as error:
        print(f"{error}\n{help_text()}" if error.shows_help else error, file=sys.stderr)
        return error.exit_code
    except ClientError as error:
        print(error, file=sys.stderr)
        return 1
    try:
        act(client, options)
    except (TopicsError, ClientError, OptionsError) as error:
        print(f"Error while executing topic command : {error}")
        return error.exit_code if isinstance(error, OptionsError) else 1
    finally:
        client.close()
    return 0


def open_client(options: Options) -> Client:
    """The client for the addresses that the options give.

    raises  OptionsError, ClientError
    """
    configs: Mapping[str, str] = {}
    path = options.value("command-config")
    if path is not None:
        configs = read_command_config(path)
    bootstrap = options.value("bootstrap-server")
    zookeeper = options.value("zookeeper")
    if zookeeper is not None:
        from odradek.tools.topics.zookeeper import bootstrap_of

        bootstrap = bootstrap_of(zookeeper)
    assert bootstrap is not None, "parse_options requires one of the two"
    return Client(bootstrap, client_id=configs.get("client.id", CLIENT_ID))


def read_command_config(path: str) -> dict[str, str]:
    """The keys of a `--command-config`; only `client.id` has an effect.

    raises  ClientError for a file that cannot be read, and for a security protocol that is not
            spoken here: a tool that goes on without encryption would be worse than none
    """
    from odradek.broker.settings.properties import PropertiesError, parse_properties

    try:
        with open(path, "rb") as file:
            configs = parse_properties(file.read())
    except (OSError, PropertiesError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ClientError(f"{path} cannot be read: {reason}") from error
    security = configs.get(SECURITY_PROTOCOL, "PLAINTEXT").strip()
    if security != "PLAINTEXT":
        raise ClientError(f"{path}: {SECURITY_PROTOCOL}={security} is not spoken by this tool")
    return configs


def act(client: Client, options: Options) -> None:
    """The one action that the options name.

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
    """One topic."""
    wish = read_wish(options)
    if "." in wish.name or "_" in wish.name:
        print(COLLISIONS)
    check_new(wish)
    request = CreateTopicsRequest(
        topics=[_new_topic(wish)], timeout_ms=TIMEOUT_MS, validate_only=False
    )
    answer = client.controller(
        ApiKey.CREATE_TOPICS,
        request,
        CreateTopicsResponse,
        errors_of=lambda answer: [topic.error_code for topic in answer.topics],
    )
    for topic in answer.topics:
        if topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and options.has("if-not-exists"):
            return
        check(topic.error_code, topic.error_message)
    print(f"Created topic {wish.name}.")


def _new_topic(wish: Wish) -> CreatableTopic:
    return CreatableTopic(
        name=wish.name,
        num_partitions=-1 if wish.partitions is None else wish.partitions,
        replication_factor=-1 if wish.replication_factor is None else wish.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in enumerate(wish.assignment)
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in wish.configs.items()
        ],
    )


def list_topics(client: Client, options: Options) -> None:
    """Names, one a line, sorted; one empty line when there is none."""
    names = find_topics(
        client,
        options.value("topic"),
        exclude_internal=options.has("exclude-internal"),
        must_exist=False,
    )
    print("\n".join(names))


def alter(client: Client, options: Options) -> None:
    """More partitions for every topic that matches."""
    wish = read_wish(options)
    assert wish.partitions is not None, "parse_options requires a number of partitions"
    names = _existing_topics(client, options)
    if not names:
        return
    counts: dict[str | None, int] = {}
    if wish.assignment:
        for topic in client.metadata(names).topics:
            check(topic.error_code)
            counts[topic.name] = len(topic.partitions)
    topics = [
        CreatePartitionsTopic(
            name=name,
            count=wish.partitions,
            assignments=[
                CreatePartitionsAssignment(broker_ids=brokers)
                for brokers in wish.assignment[counts[name] :]
            ]
            if wish.assignment
            else None,
        )
        for name in names
    ]
    answer = client.controller(
        ApiKey.CREATE_PARTITIONS,
        CreatePartitionsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=False),
        CreatePartitionsResponse,
        errors_of=lambda answer: [result.error_code for result in answer.results],
    )
    for result in answer.results:
        check(result.error_code, result.error_message)


def delete(client: Client, options: Options) -> None:
    """Every topic that matches."""
    names = _existing_topics(client, options)
    if not names:
        return
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name, topic_id=ZERO_ID) for name in names],
        topic_names=names,
        timeout_ms=TIMEOUT_MS,
    )
    answer = client.controller(
        ApiKey.DELETE_TOPICS,
        request,
        DeleteTopicsResponse,
        errors_of=lambda answer: [result.error_code for result in answer.responses],
    )
    for result in answer.responses:
        check(result.error_code, result.error_message)


def _existing_topics(client: Client, options: Options) -> list[str]:
    return find_topics(
        client,
        options.value("topic"),
        exclude_internal=options.has("exclude-internal"),
        must_exist=not options.has("if-exists"),
    )
