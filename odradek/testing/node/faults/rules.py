"""The rules of one broker, and which of them is for a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from odradek.protocol.api_keys import ApiKey
from odradek.testing.node.faults.naming import TOPIC, NameOf, NameReader
from odradek.testing.node.faults.placement import names
from odradek.testing.node.faults.rule import FaultAction, FaultRefused, Rule, parse_rule

RULES_MAX: Final = 1_000
OWN_CLIENT_ID: Final = "odradek-testing"
"""The client of test handles: what a test looks up is not a request of the program under test."""


class Rules:
    """Rules by number, the oldest first."""

    def __init__(self, served: Mapping[ApiKey, range]) -> None:
        """served  the versions of each API"""
        self._served = served
        self._rules: dict[int, Rule] = {}
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._rules)

    def add(self, fields: Mapping[str, Any]) -> Rule:
        """Add the rule of a JSON object.

        raises  FaultRefused
        """
        if len(self._rules) >= RULES_MAX:
            raise FaultRefused(f"there are {RULES_MAX} faults: some have to be removed")
        rule = parse_rule(self._last_number + 1, fields, self._served)
        self._last_number = rule.number
        self._rules[rule.number] = rule
        return rule

    def get(self, number: int) -> Rule | None:
        return self._rules.get(number)

    def rows(self) -> list[dict[str, Any]]:
        """All rules, for a listing."""
        return [rule.row() for rule in self._rules.values()]

    def remove(self, number: int) -> None:
        """Remove a rule, if there is one."""
        self._rules.pop(number, None)

    def clear(self) -> None:
        self._rules.clear()

    def ends_sessions(self, api: ApiKey) -> bool:
        """Whether a rule needs each request to name all its topics."""
        return any(
            not rule.is_used_up
            and rule.api in (api, None)
            and rule.action is not FaultAction.CORRUPT
            and TOPIC in rule.names
            for rule in self._rules.values()
        )

    def find(
        self, api: ApiKey, version: int, client_id: str | None, request: Any, name_of: NameOf
    ) -> Rule | None:
        """The oldest rule that applies to a request, which counts.

        A rule for corrupted batches does not count: the response shows whether there are any.
        """
        reader: NameReader | None = None
        for rule in self._rules.values():
            if rule.is_used_up or not _is_for(rule, api, client_id, request):
                continue
            if not rule.can_apply(api, version):
                continue
            if rule.action is FaultAction.CORRUPT:
                return rule
            if rule.names:
                reader = reader or NameReader(request, version, name_of)
                if not names(request, rule.names, reader):
                    continue
            if rule.take():
                return rule
        return None


def _is_for(rule: Rule, api: ApiKey, client_id: str | None, request: Any) -> bool:
    """Requests of followers and of test handles count only for a rule with their client id."""
    if rule.api is not api and rule.api is not None:
        return False
    if rule.client_id is not None:
        return rule.client_id == client_id
    if client_id == OWN_CLIENT_ID or is_of_follower(request):
        return False
    return rule.api is not None or api not in BETWEEN_BROKERS


BETWEEN_BROKERS: Final = (
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
)


def is_of_follower(request: Any) -> bool:
    """Whether a replica of another broker asks."""
    replica: Any = getattr(request, "replica_state", None) or request
    replica_id: int = getattr(replica, "replica_id", -1)
    return replica_id >= 0
