"""`odradek streams-application-reset`: the flags, lines and exit codes of Apache's tool of 3.9.

It sets the offsets of an application of Kafka Streams in its input topics, moves those of its
intermediate topics to their ends, and deletes its internal topics.

Exit codes: 0 success; 1 failure (a line on stderr gives the reason), or a topic that there is not;
2 an invalid command line.
Source: Kafka 3.9's StreamsResetter.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from odradek.bounded_files import read_file
from odradek.protocol.messages.find_coordinator import Coordinator
from odradek.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import BrokerConnection, Client, ClientError
from odradek.tools.client_config import open_client
from odradek.tools.consumer_groups.coordinators import RETRIED, ask_coordinator
from odradek.tools.consumer_groups.group_offsets import commit_offsets, committed_offsets
from odradek.tools.consumer_groups.queries import Member, describe
from odradek.tools.consumer_groups.times import before, parse_datetime
from odradek.tools.errors import KafkaError, ToolError, partition_text, refused
from odradek.tools.options import (
    HELP_FLAGS,
    INT64_MAX,
    Options,
    OptionsError,
    cannot_be_used,
    parse,
    parse_integer,
    read_flags,
)
from odradek.tools.partition_offsets import NO_OFFSET, list_offsets, partitions_of
from odradek.tools.run_command import run_command
from odradek.tools.topics.requests import delete_topics

Offsets = dict[TopicPartition, int]

WHAT_IT_DOES: Final = """\
This tool resets an application of Kafka Streams, so that it processes its input again: it sets the
offsets of the input topics, moves those of intermediate topics to the end, and deletes the internal
topics, whose names begin with that of the application.  Stop every instance before, try --dry-run
first, and delete the local state of each instance (KafkaStreams#cleanUp): with its old state the
application's results are wrong.  Output topics are left as they are.
"""
BOOTSTRAP: Final = "localhost:9092"
FILE_BYTES_MAX: Final = 64 << 20
SCENARIOS: Final = (
    *("to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "from-file"),
    "shift-by",
)
INTERNAL: Final = re.compile(
    r".*(?:-changelog|-repartition|-subscription-registration-topic|-subscription-response-topic)"
    r"|.+-KTABLE-FK-JOIN-SUBSCRIPTION-(?:REGISTRATION|RESPONSE)-\d+-topic"
)
"""Names that Kafka Streams gives to the topics of its stores, joins and repartitions."""

FLAGS: Final = (*HELP_FLAGS, *read_flags("streams-application-reset"))


class _PlanError(ToolError):
    """A time or a file that gives no offsets, of which Kafka says so in a line of its own."""


def parse_options(arguments: Sequence[str]) -> Options:
    options = parse(FLAGS, arguments, WHAT_IT_DOES, may_be_empty=True, wrong_shows_help=True)
    if not options.has("application-id"):
        raise OptionsError("Missing required option(s) [application-id]", shows_help=True)
    given = [scenario for scenario in SCENARIOS if options.has(scenario)]
    if len(given) > 1:
        raise cannot_be_used(*given[:2])
    return options


def main(arguments: Sequence[str]) -> int:
    return run_command(arguments, FLAGS, parse_options, _act)


def _act(options: Options) -> int:
    try:
        group = options.value("application-id") or ""
        bootstrap = options.value("bootstrap-server") or options.value("bootstrap-servers")
        with open_client(bootstrap or BOOTSTRAP, options.value("config-file")) as client:
            return reset_application(client, options, group)
    except (OptionsError, ToolError, ClientError) as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1


def reset_application(client: Client, options: Options, group: str) -> int:
    """Reset offsets and delete topics, or print that, as the options say; the exit code.

    raises  OptionsError, ToolError; what was committed before stays so
    """
    _remove_members(client, group, is_forced=options.has("force"))
    topics = sorted(
        topic.name for topic in client.metadata().topics if topic.name and not topic.is_internal
    )
    if options.has("dry-run"):
        what = "displays the actions which will be performed when running Streams Reset Tool"
        print(f"----Dry run {what}----")
    code = _reset_offsets(client, options, group, topics)
    _delete_internal_topics(client, options, group, topics)
    return code


def _remove_members(client: Client, group: str, *, is_forced: bool) -> None:
    """Refuse a group with members, or let them leave.

    raises  ToolError
    """
    description = describe(client, [group])[group]
    if isinstance(description, KafkaError):
        raise description
    members = description.members
    if not members:
        return
    if not is_forced:
        raise ToolError(
            f"Consumer group '{group}' is still active and has following members: "
            f"[{', '.join(map(_member_text, members))}]. Make sure to stop all running application "
            "instances before running the reset tool. You can use option '--force' to remove "
            "active members from the group."
        )
    print(f"Force deleting all active members in the group: {group}")
    request = LeaveGroupRequest(
        group_id=group,
        members=[
            MemberIdentity(member_id="", group_instance_id=member.instance_id)
            if member.instance_id
            else MemberIdentity(member_id=member.member_id)
            for member in members
        ],
    )

    def ask(connection: BrokerConnection, keys: list[str], _: Coordinator) -> dict[str, Any]:
        response = connection.request(request, LeaveGroupResponse)
        if response.error_code in RETRIED:
            return {}
        codes = [response.error_code, *(member.error_code for member in response.members)]
        return {group: next((refused(code) for code in codes if code), True)}

    ask_coordinator(client, group, ask)


def _member_text(member: Member) -> str:
    partitions = ", ".join(map(partition_text, member.partitions))
    return (
        f"(memberId={member.member_id}, groupInstanceId={member.instance_id or 'null'}, "
        f"clientId={member.client_id}, host={member.host}, "
        f"assignment=(topicPartitions={partitions}))"
    )


def _reset_offsets(client: Client, options: Options, group: str, topics: Sequence[str]) -> int:
    """Print and commit the new offsets; the exit code, 1 when there is not every topic.

    topics  all of the cluster
    raises  OptionsError, ToolError
    """
    inputs = options.list_of("input-topics")
    intermediates = options.list_of("intermediate-topics")
    if not inputs and not intermediates:
        print("No input or intermediate topics specified. Skipping seek.")
        return 0
    if inputs:
        print(f"Reset-offsets for input topics [{', '.join(inputs)}]")
    if intermediates:
        print(f"Seek-to-end for intermediate topics [{', '.join(intermediates)}]")
    is_complete = _print_missing("input", "Topic: ", inputs, topics)
    is_complete &= _print_missing("intermediate", "Topic:", intermediates, topics)
    code = 0 if is_complete else 1
    read = _partitions(client, inputs, topics)
    moved = _partitions(client, [name for name in intermediates if name not in inputs], topics)
    if not read and not moved:
        return code
    offsets: Offsets = {}
    if read:
        print(f"Following input topics offsets will be reset to (for consumer group {group})")
        try:
            offsets = _new_offsets(client, options, group, read)
        except _PlanError:
            print("ERROR: Resetting offsets failed.", file=sys.stderr)
            raise
        for partition, offset in offsets.items():
            print(f"Topic: {partition.topic} Partition: {partition.partition} Offset: {offset}")
    if moved:
        what = "intermediate topics offsets will be reset to end"
        print(f"Following {what} (for consumer group {group})")
        for partition in moved:
            print(f"Topic: {partition.topic}")
        offsets |= list_offsets(client, moved, LATEST_TIMESTAMP)
    if not options.has("dry-run"):
        commit_offsets(client, group, offsets)
    print("Done.")
    return code


def _print_missing(kind: str, title: str, names: Sequence[str], topics: Sequence[str]) -> bool:
    """Print the topics that there are not; returns whether there are all."""
    missing = [name for name in names if name not in topics]
    if missing:
        print(f"Following {kind} topics are not found, skipping them")
        for name in missing:
            print(f"{title}{name}")
    return not missing


def _partitions(
    client: Client, names: Sequence[str], topics: Sequence[str]
) -> list[TopicPartition]:
    existing = sorted({name for name in names if name in topics})
    return [partition for name in existing for partition in partitions_of(client, name)]


def _new_offsets(
    client: Client, options: Options, group: str, partitions: Sequence[TopicPartition]
) -> Offsets:
    """The offset of each partition, sorted, by the scenario of the options.

    raises  OptionsError, ToolError
    """
    if options.has("to-offset"):
        offset = options.number_or("to-offset", 0, INT64_MAX)
        return _in_range(client, dict.fromkeys(partitions, offset))
    if options.has("to-latest"):
        return list_offsets(client, partitions, LATEST_TIMESTAMP)
    if options.has("shift-by"):
        count = options.number_or("shift-by", 0, INT64_MAX)
        current = list_offsets(client, partitions, LATEST_TIMESTAMP)
        current |= {
            partition: offset
            for partition, offset in committed_offsets(client, group).items()
            if partition in current
        }
        return _in_range(client, {row: offset + count for row, offset in current.items()})
    if options.has("to-datetime"):
        try:
            then_ms = parse_datetime(options.value("to-datetime") or "")
        except ToolError as error:
            raise _PlanError(str(error)) from error
        return _at(client, partitions, then_ms)
    if options.has("by-duration"):
        then_ms = before(time.time_ns(), options.value("by-duration") or "")
        return _at(client, partitions, then_ms)
    if options.has("from-file"):
        plan = _plan(options.value("from-file") or "")
        for partition in sorted({*plan} ^ {*partitions}):
            where = "input topics" if partition in plan else "plan"
            raise ToolError(f"{partition_text(partition)} is not a partition of the {where}")
        return _in_range(client, plan)
    return list_offsets(client, partitions, EARLIEST_TIMESTAMP)


def _at(client: Client, partitions: Sequence[TopicPartition], then_ms: int) -> Offsets:
    """The first offset at or after a time; the log end offset when there is none."""
    offsets = list_offsets(client, partitions, then_ms)
    late = [partition for partition in offsets if offsets[partition] == NO_OFFSET]
    for partition in late:
        print(
            f"Partition {partition.partition} from topic {partition.topic} is empty, without a "
            "committed record. Falling back to latest known offset."
        )
    return offsets | list_offsets(client, late, LATEST_TIMESTAMP)


def _plan(path: str) -> Offsets:
    """The offsets of a CSV file.

    raises  ToolError
    """
    try:
        text = read_file(path, FILE_BYTES_MAX).decode(errors="replace")
    except OSError as error:
        raise _PlanError(f"Unable to read file {path}") from error
    if not text:
        raise _PlanError("Error parsing reset plan CSV file. It is empty,")
    plan: Offsets = {}
    for line in text.rstrip("\n").split("\n"):
        words = line.rstrip(",").split(",")
        if len(words) != 3:
            allowed = "Reset plan CSV file is not following the format `TOPIC,PARTITION,OFFSET`."
            raise _PlanError(allowed)
        index, offset = parse_integer(words[1]), parse_integer(words[2], INT64_MAX)
        plan[TopicPartition(words[0], index)] = offset
    return plan


def _in_range(client: Client, requested: Mapping[TopicPartition, int]) -> Offsets:
    """The requested offsets, each moved into its log; a boundary is reported as one beyond it."""
    starts = list_offsets(client, requested, EARLIEST_TIMESTAMP)
    ends = list_offsets(client, requested, LATEST_TIMESTAMP)
    offsets: Offsets = {}
    for partition in sorted(requested):
        offset = requested[partition]
        if starts[partition] < offset < ends[partition]:
            offsets[partition] = offset
            continue
        is_high = offset >= ends[partition]
        offsets[partition] = ends[partition] if is_high else starts[partition]
        bound = "higher than latest" if is_high else "lower than earliest"
        print(f"New offset ({offset}) is {bound} offset. Value will be set to {offsets[partition]}")
    return offsets


def _delete_internal_topics(
    client: Client, options: Options, group: str, topics: Sequence[str]
) -> None:
    """raises  ToolError"""
    others = (*options.list_of("input-topics"), *options.list_of("intermediate-topics"))
    internal = [
        name
        for name in topics
        if name.startswith(f"{group}-") and name not in others and INTERNAL.fullmatch(name)
    ]
    chosen, kind = options.list_of("internal-topics"), "specified"
    if not chosen:
        chosen, kind = internal, "inferred"
    elif not {*chosen} <= {*internal}:
        raise ToolError(
            "Invalid topic specified in the --internal-topics option. Ensure that the topics "
            "specified are all internal topics. Do a dry run without the --internal-topics option "
            "to see the list of all internal topics that can be deleted."
        )
    print(f"Deleting {kind} internal topics [{', '.join(chosen)}]")
    if chosen and not options.has("dry-run"):
        _delete_topics(client, chosen)
    print("Done.")


def _delete_topics(client: Client, names: Sequence[str]) -> None:
    failed = [result for result in delete_topics(client, names) if result.error_code]
    for result in failed:
        reason = refused(result.error_code, result.error_message)
        print(f"ERROR: deleting topic {result.name}\n{reason}", file=sys.stderr)
    if failed:
        raise ToolError("Encountered an error deleting one or more topics")
