"""`odradek reassign-partitions --generate`: a new placement of topics on brokers.

Source: Kafka 3.9's ReassignPartitionsCommand (generateAssignment, getBrokerMetadata).
"""

from __future__ import annotations

import random

from odradek.controller.decide.placement import place
from odradek.controller.image.image import BrokerImage
from odradek.protocol.errors import BrokerError
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.errors import ToolError
from odradek.tools.json_files import read_text
from odradek.tools.options import Options
from odradek.tools.reassign_partitions.cluster import live_brokers, replicas_of_topics
from odradek.tools.reassign_partitions.plan import (
    ReplicaAssignment,
    format_assignment,
    parse_brokers,
    parse_topics,
)


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
