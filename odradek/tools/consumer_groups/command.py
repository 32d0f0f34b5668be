"""`odradek consumer-groups`: the flags, lines and exit codes of `kafka-consumer-groups.sh` 3.9.

Exit codes: 0, also when the action failed (Kafka does the same), which a line on stdout reports
that starts with `Error:`; 2 when the command line is invalid, which stderr reports.
Source: Kafka 3.9's ConsumerGroupCommand.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client, ClientError
from odradek.tools.client_config import new_client, read_client_config
from odradek.tools.consumer_groups.describe import (
    deletions_table,
    describe_groups,
    groups_table,
    plans_table,
    print_error,
)
from odradek.tools.consumer_groups.group_offsets import delete_groups, delete_offsets
from odradek.tools.consumer_groups.options import FLAGS, TIMEOUT_MS, parse_options, usage
from odradek.tools.consumer_groups.plan_csv import export_plans
from odradek.tools.consumer_groups.queries import (
    STATES,
    TYPES,
    UNKNOWN,
    canonical_name,
    list_groups,
)
from odradek.tools.consumer_groups.reset import parse_scope, reset_offsets
from odradek.tools.errors import KafkaError, ToolError, refused
from odradek.tools.options import INT32_MAX, INT64_MAX, Options, OptionsError
from odradek.tools.partition_offsets import partitions_of
from odradek.tools.run_command import run_command

PARTITION_ERRORS: Final = (
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


def main(arguments: Sequence[str]) -> int:
    return run_command(arguments, FLAGS, parse_options, _act)


def _act(options: Options) -> int:
    try:
        with open_client(options) as client:
            act(client, options)
    except OptionsError as error:
        if error.shows_help:
            raise
        print_error(f"Executing consumer group command failed due to {error}")
        return error.exit_code
    except ToolError as error:
        print_error(f"Executing consumer group command failed due to {error}")
    return 0


def open_client(options: Options) -> Client:
    """Create the client for the addresses in the options.

    raises  OptionsError, ToolError
    """
    configs: Mapping[str, str] = {}
    path = options.value("command-config")
    if path is not None:
        if not os.path.exists(path):
            raise ToolError(f"{path} does not exist")
        configs = read_client_config(path)
    try:
        return new_client(options.required("bootstrap-server"), configs)
    except ClientError as error:
        print(f"Caused by: {error}", file=sys.stderr)
        raise ToolError("Failed to create new KafkaAdminClient") from error


def act(client: Client, options: Options) -> None:
    if options.has("list"):
        _list(client, options)
    elif options.has("describe"):
        describe_groups(client, options, _groups(client, options))
    elif options.has("delete"):
        _delete(client, options)
    elif options.has("reset-offsets"):
        _reset(client, options)
    else:
        _delete_offsets(client, options)


def _set_timeout(client: Client, options: Options) -> None:
    """Bound every step of the action by `--timeout`."""
    timeout_ms = options.number_or("timeout", TIMEOUT_MS, INT64_MAX)
    client.set_timeout(max(1, min(timeout_ms, INT32_MAX)))


def _groups(client: Client, options: Options) -> list[str]:
    """The groups that the options name, or all groups of the cluster."""
    _set_timeout(client, options)
    if options.has("all-groups"):
        return [group.group_id for group in list_groups(client)]
    return options.values("group")


def _list(client: Client, options: Options) -> None:
    has_type, has_state = options.has("type"), options.has("state")
    if not has_type and not has_state:
        _set_timeout(client, options)
        for group in list_groups(client):
            print(group.group_id)
        return
    types = parse_names(options.value("type") or "", TYPES, "types")
    states = parse_names(options.value("state") or "", STATES, "state")
    _set_timeout(client, options)
    try:
        groups = list_groups(client, states, types)
    except KafkaError as error:
        raise ToolError(str(error)) from error
    print(groups_table(groups, has_type=has_type, has_state=has_state))


def parse_names(text: str, names: Sequence[str], kind: str) -> list[str]:
    """Parse `stable,empty` into a list of elements of `names`; an empty text gives an empty list.

    kind    what the error message calls such a list
    raises  OptionsError for a word that is not in `names`
    """
    chosen = [canonical_name(word.strip(), names) for word in text.split(",")] if text else []
    if UNKNOWN in chosen:
        raise usage(
            f"Invalid {kind} list '{text}'. Valid {kind.removesuffix('s')}s are: {', '.join(names)}"
        )
    return chosen


def _delete(client: Client, options: Options) -> None:
    results = delete_groups(client, _groups(client, options))
    deleted = sorted(group for group, error in results.items() if error is None)
    failed = sorted(group for group in results if group not in deleted)
    if not failed:
        print(f"Deletion of requested consumer groups ('{', '.join(deleted)}') was successful.")
        return
    print_error("Deletion of some consumer groups failed:")
    for group in failed:
        error = results[group]
        assert error is not None, "the group is not in `deleted`"
        print(f"* Group '{group}' could not be deleted due to: {error}")
    if deleted:
        names = ", ".join(f"'{group}'" for group in deleted)
        print(f"\nThese consumer groups were deleted successfully: {names}")


def _reset(client: Client, options: Options) -> None:
    plans = reset_offsets(client, options, _groups(client, options))
    ordered = {group: plans[group] for group in sorted(plans)}
    if options.has("export"):
        print(export_plans(ordered, options.values("group")))
    else:
        print(plans_table(ordered), end="")


def _delete_offsets(client: Client, options: Options) -> None:
    group = options.required("group")
    topics = options.values("topic")
    _set_timeout(client, options)
    partitions = [partition for topic in topics if ":" in topic for partition in parse_scope(topic)]
    results: dict[TopicPartition, KafkaError | None] = {}
    for topic in sorted({topic for topic in topics if ":" not in topic}):
        try:
            partitions += partitions_of(client, topic)
        except KafkaError as error:
            results[TopicPartition(topic, -1)] = error
    partitions = sorted(set(partitions))
    first: KafkaError | None = None
    try:
        codes = delete_offsets(client, group, partitions)
        results |= {
            partition: refused(codes[partition]) if codes[partition] else None
            for partition in partitions
        }
        first = next(filter(None, (results[partition] for partition in partitions)), None)
    except KafkaError as error:
        first = error
        results |= dict.fromkeys(partitions, error)
    _print_deletion(group, topics, first)
    rows = [
        (partition, "Successful" if error is None else f"Error: :{error}")
        for partition, error in sorted(
            results.items(), key=lambda item: f"{item[0].topic}{item[0].partition}"
        )
    ]
    print(deletions_table(rows), end="")


def _print_deletion(group: str, topics: Sequence[str], error: KafkaError | None) -> None:
    if error is None:
        print(f"Request succeed for deleting offsets with topic {', '.join(topics)} group {group}")
    elif error.code == ErrorCode.INVALID_GROUP_ID:
        print_error(f"'{group}' is not valid.")
    elif error.code == ErrorCode.GROUP_ID_NOT_FOUND:
        print_error(f"'{group}' does not exist.")
    elif error.code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        print_error(f"Access to '{group}' is not authorized.")
    elif error.code == ErrorCode.NON_EMPTY_GROUP:
        print_error(
            f"Deleting offsets of a consumer group '{group}' is forbidden if the group is not "
            "empty."
        )
    elif error.code in PARTITION_ERRORS:
        print_error("Encounter some partition level error, see the follow-up details:")
    else:
        name = ErrorCode(error.code).name if error.code in list(ErrorCode) else error.code
        print_error(f"Encounter some unknown error: {name}")
