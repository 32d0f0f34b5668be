"""`odradek topics`: the flags, lines and exit codes of `kafka-topics.sh` 3.9.

Exit codes: 0 success; 1 failure; 2 an invalid command line.  One line gives the reason: on stderr
before the tool connects, on stdout afterwards, as Kafka's tool does.
Source: Kafka 3.9's TopicCommand.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.protocol.errors import ErrorCode
from odradek.tools.client import Client
from odradek.tools.errors import ToolError
from odradek.tools.options import Options, OptionsError
from odradek.tools.run_command import client_of, run_command
from odradek.tools.topics.describe import describe
from odradek.tools.topics.options import FLAGS, parse_options
from odradek.tools.topics.queries import check, find_topics
from odradek.tools.topics.requests import add_partitions, create_topics, delete_topics, new_topic
from odradek.tools.topics.topic_spec import COLLISIONS, check_new, read_spec


def main(arguments: Sequence[str]) -> int:
    return run_command(arguments, FLAGS, parse_options, _act)


def _act(options: Options) -> int:
    with client_of(options) as client:
        try:
            act(client, options)
        except (ToolError, OptionsError) as error:
            print(f"Error while executing topic command : {error}")
            return error.exit_code if isinstance(error, OptionsError) else 1
    return 0


def act(client: Client, options: Options) -> None:
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
    spec = read_spec(options)
    if "." in spec.name or "_" in spec.name:
        print(COLLISIONS)
    check_new(spec)
    new = new_topic(
        spec.name,
        -1 if spec.partitions is None else spec.partitions,
        -1 if spec.replication_factor is None else spec.replication_factor,
        assignment=spec.assignment,
        configs=spec.configs,
    )
    for topic in create_topics(client, [new]):
        if topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and options.has("if-not-exists"):
            return
        check(topic.error_code, topic.error_message)
    print(f"Created topic {spec.name}.")


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
    topics = {
        name: (spec.partitions, spec.assignment[counts[name] :] if spec.assignment else None)
        for name in names
    }
    for result in add_partitions(client, topics):
        check(result.error_code, result.error_message)


def delete(client: Client, options: Options) -> None:
    """Delete every topic that matches."""
    names = _existing_topics(client, options)
    if not names:
        return
    for result in delete_topics(client, names):
        check(result.error_code, result.error_message)


def _existing_topics(client: Client, options: Options) -> list[str]:
    return find_topics(
        client,
        options.value("topic"),
        exclude_internal=options.has("exclude-internal"),
        must_exist=not options.has("if-exists"),
    )
