"""The rules of one broker: which requests each is for, what happens to them, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from odradek.protocol.api_keys import ApiKey, api_named, messages_of
from odradek.protocol.errors import ErrorCode
from odradek.testing.node.faults.naming import KINDS, PARTITION, TOPIC, NameOf, NameReader, kinds_of
from odradek.testing.node.faults.placement import (
    carries_records,
    has_place,
    has_throttle_time,
    names,
)

DELAY_MAX_MS: Final = 600_000
COUNT_MAX: Final = 1_000_000_000
TEXT_MAX: Final = 1_000
"""Characters of a name in a rule."""
TIME_FIELDS: Final = ("delay_ms", "throttle_ms")
FLAG_FIELDS: Final = ("drop", "close", "half_written", "corrupt", "executed")
FIELDS: Final = ("api", *KINDS, "client_id", "error", *TIME_FIELDS, *FLAG_FIELDS, "times", "skip")
RULES_MAX: Final = 1_000
OWN_CLIENT_ID: Final = "odradek-testing"
"""The client of test handles: what a test looks up is not a request of the program under test."""
BETWEEN_BROKERS: Final = (
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
)


class FaultRefused(ValueError):
    """A fault that cannot be; the text says why."""


class FaultAction(Enum):
    """What happens to a request, and the field of a rule that says so."""

    NONE = ""
    """Nothing but its delay."""
    ERROR = "error"
    DROP = "drop"
    CLOSE = "close"
    HALF_WRITTEN = "half_written"
    CORRUPT = "corrupt"
    THROTTLE = "throttle_ms"


@dataclass(slots=True)
class Rule:
    """api       None for every API that clients use
    names       what a request has to name, by kind
    executed    whether the request is carried out first
    times       how many requests it is for; None for all
    skip        how many requests pass before the first
    hits        requests that it was applied to
    """

    number: int
    api: ApiKey | None
    names: dict[str, str | int]
    client_id: str | None
    action: FaultAction
    error: ErrorCode
    delay_ms: int
    throttle_ms: int
    executed: bool
    times: int | None
    skip: int
    written: dict[str, Any]
    """The rule as the test wrote it."""
    hits: int = 0
    passed: int = 0
    """Requests that `skip` has let pass."""

    @property
    def is_used_up(self) -> bool:
        return self.times is not None and self.hits >= self.times

    def take(self) -> bool:
        """Whether it applies to one more request, which counts."""
        if self.is_used_up:
            return False
        if self.passed < self.skip:
            self.passed += 1
            return False
        self.hits += 1
        return True

    def can_apply(self, api: ApiKey, version: int) -> bool:
        """Whether requests of a version name what is wanted, and responses have what it takes."""
        request, response = _messages(api)
        kinds = frozenset(self.names)
        if not kinds <= kinds_of(request, version) | kinds_of(response, version):
            return False
        match self.action:
            case FaultAction.ERROR:
                return has_place(response, version, kinds)
            case FaultAction.CORRUPT:
                return carries_records(response, version)
            case FaultAction.THROTTLE:
                return has_throttle_time(response, version)
        return True

    def row(self) -> dict[str, Any]:
        """What a listing says of it."""
        return {"id": self.number, **self.written, "hits": self.hits, "used_up": self.is_used_up}


def parse_rule(number: int, fields: Mapping[str, Any], served: Mapping[ApiKey, range]) -> Rule:
    """The rule of a JSON object.

    served  the versions of each API
    raises  FaultRefused
    """
    for name in fields:
        if name not in FIELDS:
            raise FaultRefused(f"a fault has no {name!r}: it has {', '.join(FIELDS)}")
    written = {name: value for name, value in fields.items() if value is not None}
    api = _api(written["api"], served) if "api" in written else None
    if api is not None:
        written["api"] = api.camel_name
    flags = {name: flag(name, written.get(name, False)) for name in FLAG_FIELDS}
    actions = [
        action
        for action in FaultAction
        if action.value in written and flags.get(action.value, True)
    ]
    if len(actions) > 1:
        both = " and ".join(action.value for action in actions)
        raise FaultRefused(f"a fault has one action, not {both}")
    delay_ms = whole("delay_ms", written.get("delay_ms", 0), DELAY_MAX_MS)
    if not actions and not delay_ms:
        kinds = ", ".join(action.value for action in FaultAction if action.value)
        raise FaultRefused(f"a fault has an action: one of {kinds}, or delay_ms")
    rule = Rule(
        number=number,
        api=api,
        names=_names(written),
        client_id=_text("client_id", written["client_id"]) if "client_id" in written else None,
        action=actions[0] if actions else FaultAction.NONE,
        error=_error(written["error"]) if "error" in written else ErrorCode.NONE,
        delay_ms=delay_ms,
        throttle_ms=whole("throttle_ms", written.get("throttle_ms", 0), DELAY_MAX_MS),
        executed=flags["executed"],
        times=whole("times", written["times"], COUNT_MAX, least=1) if "times" in written else None,
        skip=whole("skip", written.get("skip", 0), COUNT_MAX),
        written=written,
    )
    if api is not None:
        _check(rule, api, served[api])
    return rule


def _check(rule: Rule, api: ApiKey, versions: range) -> None:
    if any(rule.can_apply(api, version) for version in versions):
        return
    name, newest = api.camel_name, versions[-1]
    request, response = _messages(api)
    possible = kinds_of(request, newest) | kinds_of(response, newest)
    for kind in rule.names:
        if kind not in possible:
            raise FaultRefused(f"{name} names no {_shown(kind)}")
    innermost = [kind for kind in (PARTITION, TOPIC, *KINDS) if kind in rule.names]
    match rule.action:
        case FaultAction.ERROR if innermost:
            raise FaultRefused(f"{name} has no error code for a {_shown(innermost[0])}")
        case FaultAction.ERROR:
            raise FaultRefused(f"{name} has no error code")
        case FaultAction.CORRUPT:
            raise FaultRefused(f"the response of {name} has no batches")
    raise FaultRefused(f"the response of {name} has no throttle_time_ms")


def _messages(api: ApiKey) -> tuple[Any, Any]:
    return messages_of(api)


def _api(value: Any, served: Mapping[ApiKey, range]) -> ApiKey:
    if isinstance(value, int) and not isinstance(value, bool):
        api = next((api for api in served if api.value == value), None)
    else:
        api = api_named(str(value))
    if api is None or api not in served:
        raise FaultRefused(f"no API {value!r} is served")
    return api


def _error(value: Any) -> ErrorCode:
    is_name = isinstance(value, str) and value in ErrorCode.__members__
    if is_name:
        code = ErrorCode[value]
    elif isinstance(value, int) and value in ErrorCode._value2member_map_:
        code = ErrorCode(value)
    else:
        raise FaultRefused(
            f"there is no error {value!r}: errors are such as NOT_LEADER_OR_FOLLOWER"
        )
    if code is ErrorCode.NONE:
        raise FaultRefused("NONE is not an error")
    return code


def _names(written: Mapping[str, Any]) -> dict[str, str | int]:
    names: dict[str, str | int] = {}
    for kind in KINDS:
        if kind not in written:
            continue
        if kind == PARTITION:
            names[kind] = whole(kind, written[kind], 0x7FFFFFFF)
        else:
            names[kind] = _text(kind, written[kind])
    if PARTITION in names and TOPIC not in names:
        raise FaultRefused("a partition needs its topic")
    return names


def _text(name: str, value: Any) -> str:
    if isinstance(value, str) and 0 < len(value) <= TEXT_MAX:
        return value
    raise FaultRefused(f"{name} is a text of 1 to {TEXT_MAX} characters, not {value!r:.80}")


def whole(name: str, value: Any, most: int, *, least: int = 0) -> int:
    """A field that is an integer; raises  FaultRefused."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise FaultRefused(f"{name} is a whole number from {least} to {most}, not {value!r:.80}")


def flag(name: str, value: Any) -> bool:
    """A field that is true or false; raises  FaultRefused."""
    if isinstance(value, bool):
        return value
    raise FaultRefused(f"{name} is true or false, not {value!r:.80}")


def _shown(kind: str) -> str:
    return kind.replace("_", " ")


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


def is_of_follower(request: Any) -> bool:
    """Whether a replica of another broker asks."""
    replica: Any = getattr(request, "replica_state", None) or request
    replica_id: int = getattr(replica, "replica_id", -1)
    return replica_id >= 0
