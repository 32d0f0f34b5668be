"""`odradek reassign-partitions`: the flags and lines of `kafka-reassign-partitions.sh` 3.9.

Exit codes: 0 success; 1 failure; 2 an invalid command line.  Failures are reported on stdout, an
invalid command line on stderr, as Kafka's tool does.
Source: Kafka 3.9's ReassignPartitionsCommand.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from odradek.controller.decide.placement import place
from odradek.controller.image.image import BrokerImage
from odradek.protocol.errors import BrokerError
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools import options as command_line
from odradek.tools.client import Client
from odradek.tools.errors import ToolError, partition_text
from odradek.tools.json_files import read_text
from odradek.tools.options import INT64_MAX, Options, OptionsError, action_of, read_flags, require
from odradek.tools.reassign_partitions.cluster import (
    OngoingReassignment,
    alter_reassignments,
    find_replicas,
    list_reassignments,
    live_brokers,
    replicas_of_partitions,
    replicas_of_topics,
)
from odradek.tools.reassign_partitions.log_dir_moves import TerseError, find_states, move_replicas
from odradek.tools.reassign_partitions.plan import (
    ReassignmentPlan,
    ReplicaAssignment,
    check_executable,
    format_assignment,
    parse_brokers,
    parse_plan,
    parse_topics,
)
from odradek.tools.reassign_partitions.throttles import (
    clear_throttles,
    moves_of,
    throttle_log_dirs,
    throttle_moves,
)
from odradek.tools.run_command import client_of, run_command

WHAT_IT_DOES: Final = "This tool helps to move topic partitions between replicas."

FLAGS: Final = (*command_line.CLIENT_FLAGS, *read_flags("reassign-partitions"))
REQUIRED: Final = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
PERMITTED: Final = {
    "generate": ("disable-rack-aware",),
    "execute": ("additional", "throttle", "replica-alter-log-dirs-throttle", "timeout"),
    "verify": ("preserve-throttles",),
    "cancel": ("preserve-throttles", "timeout"),
    "list": (),
}


def parse_options(arguments: Sequence[str]) -> Options:
    options = command_line.parse(FLAGS, arguments, WHAT_IT_DOES)
    action = action_of(options, REQUIRED)
    if not options.has("bootstrap-server"):
        raise OptionsError("Please specify --bootstrap-server", shows_help=True)
    require(options, *REQUIRED[action])
    allowed = (action, "bootstrap-server", "command-config", *REQUIRED[action], *PERMITTED[action])
    for name in options.names:
        if name not in allowed:
            raise OptionsError(
                f'Option "[{name}]" can\'t be used with action "[{action}]"', shows_help=True
            )
    return options


TIMEOUT_MS: Final = 10_000
ALREADY_MOVING: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to "
    "override this and create a new partition assignment in addition to the existing one. The "
    "--additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)
VERIFY_LATER: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)


def main(arguments: Sequence[str]) -> int:
    return run_command(arguments, FLAGS, parse_options, _act)


def _act(options: Options) -> int:
    try:
        with client_of(options) as client:
            act(client, options)
    except TerseError as error:
        print(error)
        return 1
    except (ToolError, OptionsError) as error:
        print(f"Error: {error}")
        return error.exit_code if isinstance(error, OptionsError) else 1
    return 0


def act(client: Client, options: Options) -> None:
    if options.has("list"):
        list_moves(client)
    elif options.has("generate"):
        generate(client, options)
    elif options.has("verify"):
        verify(client, options)
    elif options.has("execute"):
        execute(client, options)
    else:
        cancel(client, options)


def _plan(options: Options) -> ReassignmentPlan:
    return parse_plan(read_text(options.required("reassignment-json-file")))


def list_moves(client: Client) -> None:
    """Print the reassignments that are under way."""
    current = list_reassignments(client)
    if not current:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for partition, move in sorted(current.items()):
        adding = f" adding: {_ids(move.adding)}." if move.adding else ""
        removing = f" removing: {_ids(move.removing)}." if move.removing else ""
        print(f"{partition_text(partition)}: replicas: {_ids(move.replicas)}.{adding}{removing}")


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def verify(client: Client, options: Options) -> None:
    """Print the state of each move; when all are done, delete the throttles."""
    plan = _plan(options)
    current = list_reassignments(client)
    _print_partitions(client, plan, current)
    states = find_states(client, plan.directories)
    print("\n".join(states[replica].line(replica) for replica in sorted(states)))
    is_done = not current and all(state.is_done for state in states.values())
    if is_done and not options.has("preserve-throttles"):
        clear_throttles(client, plan)


def _print_partitions(
    client: Client, plan: ReassignmentPlan, current: Mapping[TopicPartition, OngoingReassignment]
) -> None:
    targets = dict(plan.partitions)
    still = [partition for partition in targets if partition not in current]
    replicas_of = find_replicas(client, (partition.topic for partition in still))
    print("Status of partition reassignment:")
    for partition, target in sorted(targets.items()):
        name = partition_text(partition)
        replicas = replicas_of.get(partition.topic, {}).get(partition.partition, [])
        if partition in current:
            print(f"Reassignment of partition {name} is still in progress.")
        elif replicas == target:
            print(f"Reassignment of partition {name} is completed.")
        else:
            print(
                f"There is no active reassignment of partition {name}, but replica set is "
                f"{_ids(replicas)} rather than {_ids(target)}."
            )


def execute(client: Client, options: Options) -> None:
    """Start the moves of a plan."""
    plan = _plan(options)
    throttle = options.number_or("throttle", -1, INT64_MAX)
    log_dirs_throttle = options.number_or("replica-alter-log-dirs-throttle", -1, INT64_MAX)
    timeout_ms = options.number_or("timeout", TIMEOUT_MS, INT64_MAX)
    proposed = check_executable(plan)
    current = list_reassignments(client)
    if current and not options.has("additional"):
        raise TerseError(ALREADY_MOVING)
    live = live_brokers(client)
    for broker in sorted({broker for replicas in proposed.values() for broker in replicas}):
        if broker not in live:
            raise ToolError(f"Unknown broker id {broker}")
    replicas = replicas_of_partitions(client, proposed)
    print(f"Current partition replica assignment\n\n{format_assignment(replicas)}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    if throttle >= 0 or log_dirs_throttle >= 0:
        print(VERIFY_LATER)
    if throttle >= 0:
        throttle_moves(client, moves_of(current, proposed, replicas), throttle)
        print(f"The inter-broker throttle limit was set to {throttle} B/s")
    if log_dirs_throttle >= 0:
        brokers = sorted({replica.broker for replica in plan.directories})
        throttle_log_dirs(client, brokers, log_dirs_throttle)
    errors = alter_reassignments(client, proposed)
    if errors:
        raise TerseError(f"Error reassigning partition(s):\n{_error_lines(errors)}")
    plural = "" if len(proposed) == 1 else "s"
    print(f"Successfully started partition reassignment{plural} for {_names(proposed)}")
    if plan.directories:
        move_replicas(client, plan.directories, timeout_ms)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(map(partition_text, sorted(partitions)))


def _error_lines(errors: Mapping[TopicPartition, str]) -> str:
    return "\n".join(
        f"{partition_text(partition)}: {text}" for partition, text in sorted(errors.items())
    )


def cancel(client: Client, options: Options) -> None:
    """Cancel the moves of a plan that are under way."""
    plan = _plan(options)
    timeout_ms = options.number_or("timeout", TIMEOUT_MS, INT64_MAX)
    targets = dict(plan.partitions)
    moving = [
        partition
        for partition, move in list_reassignments(client, targets).items()
        if not move.adding or move.removing
    ]
    if moving:
        errors = alter_reassignments(client, dict.fromkeys(moving))
        if errors:
            plural = "" if len(errors) == 1 else "s"
            raise TerseError(
                f"Error cancelling partition reassignment{plural} for:\n{_error_lines(errors)}"
            )
        plural = "" if len(moving) == 1 else "s"
        print(f"Successfully cancelled partition reassignment{plural} for: {_names(moving)}")
    else:
        print("None of the specified partition reassignments are active.")
    back = {
        replica: state.current
        for replica, state in find_states(client, plan.directories).items()
        if state.current is not None and state.future is not None
    }
    if back:
        move_replicas(client, back, timeout_ms)
    else:
        # Kafka's tool ends this line only when another one follows.
        print("None of the specified partition moves are active.", end="")
    if not options.has("preserve-throttles"):
        clear_throttles(client, plan)


def generate(client: Client, options: Options) -> None:
    """Print the present and a new placement.

    raises  OptionsError, ToolError
    """
    text = read_text(options.required("topics-to-move-json-file"))
    ids = parse_brokers(options.required("broker-list"))
    current = replicas_of_topics(client, parse_topics(text))
    is_rack_aware = not options.has("disable-rack-aware")
    chosen = [
        BrokerImage(broker, -1, (), rack if is_rack_aware else None)
        for broker, rack in live_brokers(client).items()
        if broker in ids
    ]
    if len(dict.fromkeys(broker.rack is None for broker in chosen)) > 1:
        raise ToolError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to "
            "make replica assignment without rack information."
        )
    proposed = propose(current, chosen)
    print(f"Current partition replica assignment\n{format_assignment(current)}\n")
    print(f"Proposed partition reassignment configuration\n{format_assignment(proposed)}")


def propose(
    current: ReplicaAssignment, brokers: list[BrokerImage]
) -> dict[TopicPartition, list[int]]:
    """Place all partitions of the topics, each with its number of replicas, as if they were new.

    raises  ToolError
    """
    counts: dict[str, int] = {}
    factors: dict[str, int] = {}
    for partition, replicas in current.items():
        counts[partition.topic] = counts.get(partition.topic, 0) + 1
        factors.setdefault(partition.topic, len(replicas))
    proposed: dict[TopicPartition, list[int]] = {}
    for topic, count in counts.items():
        try:
            placement = place(
                brokers,
                partitions=count,
                replication_factor=factors[topic],
                start=random.randrange(max(1, len(brokers))),
                shift=random.randrange(max(1, len(brokers))),
            )
        except BrokerError as error:
            raise ToolError(error.message or "") from error
        for index, chosen in placement.items():
            proposed[TopicPartition(topic, index)] = list(chosen)
    return proposed
