"""Asks the brokers that coordinate groups, and asks again while that changes or loads.

Source: Kafka 3.9's admin client (AdminApiDriver, CoordinatorStrategy).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import Coordinator
from odradek.tools.client import Client, Connection
from odradek.tools.consumer_groups.errors import KafkaError, refused, timed_out
from odradek.tools.consumer_groups.java_hash_order import in_hash_order

RETRIED: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

Ask = Callable[[Connection, list[str], Coordinator], Mapping[str, Any]]
"""What a coordinator says of groups: a value or a KafkaError for each that it can speak for now."""


def ask_coordinators(client: Client, groups: Iterable[str], ask: Ask) -> dict[str, Any]:
    """What the coordinator of each group says, in the order of Kafka's tool; errors are values.

    ask     leaves out the groups that have to be asked for again
    raises  ClientError
    """
    wanted = in_hash_order(groups)
    found: dict[str, Any] = {}

    def attempt() -> bool | None:
        places: dict[int, tuple[Coordinator, list[str]]] = {}
        left = [group for group in wanted if group not in found]
        for row in client.coordinators(left) if left else []:
            if row.error_code in RETRIED:
                continue
            if row.error_code:
                found[row.key] = _lookup_refused(row)
            else:
                places.setdefault(row.node_id, (row, []))[1].append(row.key)
        for row, keys in places.values():
            found.update(ask(client.connection(row.node_id, row.host, row.port), keys, row))
        return True if all(group in found for group in wanted) else None

    client.until(attempt)
    late = timed_out("The coordinator of the group is not ready")
    return {group: found.get(group, late) for group in wanted}


def _lookup_refused(row: Coordinator) -> KafkaError:
    if row.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return refused(
            row.error_code,
            f"FindCoordinator request for groupId `CoordinatorKey(idValue='{row.key}', "
            "type=GROUP)` failed due to authorization failure",
        )
    return refused(
        row.error_code,
        f"FindCoordinator request for key `CoordinatorKey(idValue='{row.key}', type=GROUP)` failed "
        "due to an unexpected error",
    )


def ask_coordinator(client: Client, group: str, ask: Ask) -> Any:
    """The same of one group.

    raises  KafkaError, ClientError
    """
    value = ask_coordinators(client, [group], ask)[group]
    if isinstance(value, KafkaError):
        raise value
    return value
