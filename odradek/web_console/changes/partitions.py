"""Changes of where partitions are: elections of preferred leaders, reassignments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from odradek.bounded_parsing import UnreadableText, parse_integer
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.cluster_status.queries import config_values
from odradek.tools.cluster_status.render import size_text
from odradek.tools.configs.resources import TOPIC, Resource, alter
from odradek.tools.errors import ToolError, partition_text
from odradek.tools.leader_election import elect_preferred
from odradek.tools.reassign_partitions.cluster import alter_reassignments, list_reassignments
from odradek.tools.reassign_partitions.throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    delete_rates,
    moves_of,
    throttle_moves,
)
from odradek.web_console.arguments import PageArgumentError, PageArguments
from odradek.web_console.changes.planned_change import PlannedChange, PreviewLine
from odradek.web_console.changes.topics import parse_brokers
from odradek.web_console.cluster import ShownCluster
from odradek.web_console.formats import path_part
from odradek.web_console.records.query import INT64_MAX
from odradek.web_console.views.metadata import find_topic, read_log_directories, read_metadata

RATES: Final = (LEADER_RATE, FOLLOWER_RATE)


def plan_elect_preferred(cluster: ShownCluster, form: PageArguments) -> PlannedChange:
    """Let the first replica lead again, in all topics or in one.

    raises  ToolError
    """
    name = form.text("topic")
    metadata = read_metadata(cluster)
    topics = [find_topic(metadata, name)] if name else metadata.topics
    moved = {
        TopicPartition(topic.name or "", row.partition_index): (row.leader_id, row.replica_nodes[0])
        for topic in topics
        for row in topic.partitions
        if row.replica_nodes and row.leader_id != row.replica_nodes[0]
    }
    if not moved:
        raise PageArgumentError("the first replica leads each partition already")

    def apply(client: Client) -> list[str]:
        elect_preferred(client, sorted(moved))
        return [f"Elected the leaders of {len(moved)} partitions."]

    return PlannedChange(
        "elect-preferred",
        f"Elect preferred leaders{f' of {name}' if name else ''}",
        [
            PreviewLine(partition_text(key), f"leader {before}", f"leader {after}")
            for key, (before, after) in sorted(moved.items())
        ],
        apply,
        {"partitions": [partition_text(key) for key in sorted(moved)]},
        f"/topics/{path_part(name)}" if name else "/brokers",
    )


def plan_reassign(cluster: ShownCluster, form: PageArguments) -> PlannedChange:
    """Move replicas of a topic: a line for each partition, as `0: 1,2,3`, or `0:` to cancel.

    With a throttle, all moves of the topic are bounded, and it stays until it is deleted.

    raises  ToolError
    """
    name = form.required("topic")
    metadata = read_metadata(cluster)
    topic = find_topic(metadata, name)
    current = {row.partition_index: row.replica_nodes for row in topic.partitions}
    live = {broker.node_id for broker in metadata.brokers}
    sizes = read_log_directories(cluster).sizes
    targets: dict[TopicPartition, list[int] | None] = {}
    lines: list[PreviewLine] = []
    moved_bytes = 0
    for text in filter(None, map(str.strip, form.raw("plan").splitlines())):
        key, replicas = _parse_line(name, text, current, live)
        targets[key] = replicas
        before = current[key.partition]
        added = [broker for broker in replicas or () if broker not in before]
        moved_bytes += len(added) * sizes.get(key, 0)
        after = "cancel the reassignment" if replicas is None else _ids(replicas)
        lines.append(PreviewLine(partition_text(key), _ids(before), after))
    if not targets:
        raise PageArgumentError("the plan has no line such as 0: 1,2,3")
    throttle = form.number("throttle", 0, 1, INT64_MAX)
    bound = f"at {size_text(throttle)}/s a broker" if throttle else "without a throttle"
    return PlannedChange(
        "reassign",
        f"Reassign partitions of {name}",
        lines,
        partial(_reassign, name, targets, current, throttle),
        {
            "partitions": {partition_text(key): replicas for key, replicas in targets.items()},
            "throttle": throttle or None,
        },
        f"/topics/{path_part(name)}",
        warning=f"About {size_text(moved_bytes)} are copied, {bound}." if moved_bytes else "",
    )


def _parse_line(
    topic: str, text: str, current: Mapping[int, Sequence[int]], live: set[int]
) -> tuple[TopicPartition, list[int] | None]:
    number, colon, brokers = text.partition(":")
    try:
        partition = parse_integer(number.strip(), 0, 2**31 - 1)
    except UnreadableText:
        partition = -1
    if not colon or partition not in current:
        raise PageArgumentError(f"'{text[:80]}' is not a line of a partition: 0: 1,2,3")
    key = TopicPartition(topic, partition)
    if not brokers.strip():
        return key, None
    replicas = parse_brokers(brokers)
    absent = [broker for broker in replicas if broker not in live]
    if absent or len(dict.fromkeys(replicas)) < len(replicas):
        reason = f"broker {absent[0]} is not alive" if absent else "a broker is named twice"
        raise PageArgumentError(f"'{text[:80]}': {reason}")
    return key, replicas


def _ids(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))


def _reassign(
    topic: str,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    replicas: Mapping[int, Sequence[int]],
    throttle: int,
    client: Client,
) -> list[str]:
    if throttle:
        proposed = {key: target for key, target in targets.items() if target is not None}
        present = {TopicPartition(topic, index): row for index, row in replicas.items()}
        moves = moves_of(list_reassignments(client, present), proposed, present)
        throttle_moves(client, moves, throttle)
    errors = alter_reassignments(client, targets)
    if errors:
        raise ToolError("; ".join(f"{partition_text(k)}: {text}" for k, text in errors.items()))
    return [f"Started {len(targets)} reassignments."]


def plan_delete_throttles(cluster: ShownCluster, form: PageArguments) -> PlannedChange:
    """Delete the throttle of a topic, and the rates of brokers unless other topics move.

    raises  ToolError
    """
    name = form.required("topic")
    find_topic(read_metadata(cluster), name)
    throttles, moving = cluster.call(partial(_read_throttles, name))
    if not throttles:
        raise PageArgumentError("the topic has no throttle")
    is_alone = moving <= {name}

    def apply(client: Client) -> list[str]:
        alter(client, Resource(TOPIC, name), {}, (LEADER_REPLICAS, FOLLOWER_REPLICAS))
        if not is_alone:
            return ["Deleted the throttle; the rates of brokers stay, since other topics move."]
        brokers = sorted(broker.node_id for broker in client.metadata([]).brokers)
        failures = delete_rates(client, brokers, RATES)
        return ["Deleted the throttle."] + [
            f"The rate of broker {broker} is left: {error}" for broker, error in failures.items()
        ]

    lines = [PreviewLine(config, value, "none") for config, value in throttles.items()]
    if is_alone:
        lines += [PreviewLine(rate, "of each broker", "none") for rate in RATES]
    return PlannedChange(
        "delete-throttles",
        f"Delete the throttle of {name}",
        lines,
        apply,
        {"topic": name},
        f"/topics/{path_part(name)}",
        warning="Its reassignments are under way, and are not bounded then."
        if name in moving
        else "",
    )


def _read_throttles(topic: str, client: Client) -> tuple[dict[str, str], set[str]]:
    """The throttled replicas of a topic by config; all topics that have partitions which move."""
    throttles = {
        config: config_values(client.any(), TOPIC, [topic], config).get(topic, "")
        for config in (LEADER_REPLICAS, FOLLOWER_REPLICAS)
    }
    present = {config: value for config, value in throttles.items() if value}
    return present, {key.topic for key in list_reassignments(client)}
