"""Requests to group coordinators, retried while a coordinator moves or loads.

Source: Kafka 3.9's admin client (AdminApiDriver, CoordinatorStrategy).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import Coordinator
from odradek.tools.client import BrokerConnection, Client
from odradek.tools.errors import KafkaError, refused, timed_out

RETRIED: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

Ask = Callable[[BrokerConnection, list[str], Coordinator], Mapping[str, Any]]
"""Sends one request to a coordinator: (connection, groups, coordinator) -> result by group.

A result is a value or a KafkaError.  A group without a result is asked for again.
"""


def ask_coordinators(client: Client, groups: Iterable[str], ask: Ask) -> dict[str, Any]:
    """Query the coordinator of each group; results by group, sorted by name.

    A failure of one group is a KafkaError in the result.
    raises  ClientError
    """
    names = sorted(set(groups))
    results: dict[str, Any] = {}

    def attempt() -> bool | None:
        by_broker: dict[int, tuple[Coordinator, list[str]]] = {}
        left = [group for group in names if group not in results]
        for row in client.coordinators(left) if left else []:
            if row.error_code in RETRIED:
                continue
            if row.error_code:
                results[row.key] = _lookup_refused(row)
            else:
                by_broker.setdefault(row.node_id, (row, []))[1].append(row.key)
        for row, keys in by_broker.values():
            results.update(ask(client.connection(row), keys, row))
        return True if all(group in results for group in names) else None

    client.retry(attempt)
    late = timed_out("The coordinator of the group is not ready")
    return {group: results.get(group, late) for group in names}


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
    """`ask_coordinators` for one group.

    raises  KafkaError, ClientError
    """
    value = ask_coordinators(client, [group], ask)[group]
    if isinstance(value, KafkaError):
        raise value
    return value
