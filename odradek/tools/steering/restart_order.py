"""In which order brokers are restarted, by which commands, and what forbids it.  Pure."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from string import Formatter
from typing import Final

from odradek.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from odradek.tools.cluster_status.render import partition_names
from odradek.tools.steering.cluster_queries import partition_statuses

FIELDS: Final = ("id", "host", "port", "rack")


def next_broker(remaining: Collection[int], controller: int) -> int:
    """The broker with the lowest id; the active controller comes last, since each of its restarts
    moves the controller."""
    return min(remaining, key=lambda node_id: (node_id == controller, node_id))


def unknown_fields(template: str) -> list[str]:
    """The names in braces that no broker has.

    raises  ValueError for a brace that is not closed
    """
    fields = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    return [name for name in fields if name not in FIELDS]


def command_for(template: str, broker: MetadataResponseBroker) -> str:
    """The command for a shell that restarts a broker; its values are quoted."""
    values = {
        "id": str(broker.node_id),
        "host": broker.host,
        "port": str(broker.port),
        "rack": broker.rack or "",
    }
    return template.format(**{name: shlex.quote(value) for name, value in values.items()})


def trouble(metadata: MetadataResponse, expected: Sequence[int]) -> str | None:
    """Why no broker may be restarted now; None: nothing.

    expected  the brokers that have to be registered
    """
    registered = [broker.node_id for broker in metadata.brokers]
    missing = [node_id for node_id in expected if node_id not in registered]
    if missing:
        return f"broker {', '.join(map(str, missing))} is not registered"
    if metadata.controller_id not in registered:
        return "there is no controller"
    statuses = partition_statuses(metadata)
    offline = [
        partition for partition, status in statuses.items() if status.leader not in registered
    ]
    if offline:
        return f"{len(offline)} partitions are offline ({partition_names(offline)})"
    lagging = [
        partition
        for partition, status in statuses.items()
        if set(status.isr) != set(status.replicas)
    ]
    if lagging:
        return f"{len(lagging)} partitions are under-replicated ({partition_names(lagging)})"
    return None
