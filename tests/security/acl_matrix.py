"""Every API under every kind of ACL: one raw request a cell, asked of any broker.

Three addresses of this machine stand for three clients, since all of them are User:ANONYMOUS: the
broker itself (127.0.0.1) and the administrator (127.0.0.2) may do everything, and the client of the
matrix (127.0.0.3) what the ACLs of a cell give it.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from odradek.protocol.acl import CLUSTER_NAME, AclPermissionType, PatternType
from odradek.protocol.api_keys import ApiKey, messages_of
from odradek.protocol.schema import NO_VERSION, ZERO_UUID, ArrayOf, schema_of
from tests.scripts.normal import Masks, normalise
from tests.security.acl_admin_rows import ADMIN_ROWS, configs, new_topic
from tests.security.acl_client_rows import CLIENT_ROWS, A, K, Need, R, Row
from tests.support.wire import Closed, Wire

ADMINISTRATOR: Final = "127.0.0.2"
CLIENT: Final = "127.0.0.3"
OTHER_HOST: Final = "127.0.0.9"
PRINCIPAL: Final = "User:ANONYMOUS"
SETTINGS: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "auto.create.topics.enable": "true",
    "group.coordinator.rebalance.protocols": "classic",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
BOOTSTRAP: Final = tuple(
    {"principal": PRINCIPAL, "permissionType": "Allow", "host": host, "operation": "All"}
    for host in ("127.0.0.1", ADMINISTRATOR)
)
"""The entries of the cluster that exist before the first request."""

COLUMNS: Final = (
    "none",
    "literal",
    "prefixed",
    "wildcard",
    "allow and deny",
    "describe only",
    "wrong resource",
    "wrong host",
    "super user",
)
SUPER_USER: Final = "super user"

ROWS: Final = (*CLIENT_ROWS, *ADMIN_ROWS)


class HostWire(Wire):
    """A connection from one of the addresses of this machine."""

    def __init__(self, address: str, host: str) -> None:
        super().__init__(address)
        self._socket.close()
        name, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((name, int(port)), 60, source_address=(host, 0))


def made(structure: type, fields: Mapping[str, Any]) -> Any:
    """A message from the fields that matter; all others are 0, empty or null."""
    values: dict[str, Any] = {}
    unknown = dict(fields)
    for field in schema_of(structure).fields:
        value = unknown.pop(field.name, None)
        if field.name not in fields:
            value = empty(field)
        elif isinstance(field.type, ArrayOf) and value is not None:
            element = field.type.element
            if isinstance(element, type):
                value = [made(element, each) for each in value]
        values[field.name] = value
    assert not unknown, f"{structure.__name__} has no {sorted(unknown)}"
    return structure(**values)


def empty(field: Any) -> Any:
    if isinstance(field.type, ArrayOf):
        return []
    if isinstance(field.type, type):
        return None if field.nullable is not NO_VERSION else made(field.type, {})
    name = field.type.name
    if isinstance(field.default, int) and not isinstance(field.default, bool):
        return field.default
    if name == "uuid":
        return ZERO_UUID
    if name == "bool":
        return False
    if name in ("string", "bytes", "records"):
        is_nullable = field.nullable is not NO_VERSION
        return None if is_nullable else "" if name == "string" else b""
    return 0


class Matrix:
    """The cells of one broker, asked one after another."""

    def __init__(self, address: str, *, is_super: bool) -> None:
        self._address = address
        self._is_super = is_super
        self._administrator = HostWire(address, ADMINISTRATOR)
        self._ids: dict[str, Any] = {}

    def play(self) -> dict[str, dict[str, Any]]:
        """Row -> column -> response."""
        self._prepare()
        columns = [column for column in COLUMNS if (column == SUPER_USER) == self._is_super]
        return {row.name: {column: self._cell(row, column) for column in columns} for row in ROWS}

    def may_administrate(self) -> bool:
        """Whether the first ACLs are in force."""
        fields = {"include_cluster_authorized_operations": True, "endpoint_type": 1}
        response = self._administrate(K.DESCRIBE_CLUSTER, 1, fields)
        return bool(response.cluster_authorized_operations)

    def _administrate(self, api: ApiKey, version: int, fields: Mapping[str, Any]) -> Any:
        return self._administrator.call(made(messages_of(api)[0], fields), version)

    def _prepare(self) -> None:
        """Everything for the administrator; the topics of the rows; the coordinators."""
        self.prepare_coordinators()
        for _ in range(200):
            given = self._administrate(
                K.INIT_PRODUCER_ID, 4, {"producer_id": -1, "producer_epoch": -1}
            )
            if not given.error_code:
                break
        names = dict.fromkeys(
            name_of(row, column) for row in ROWS if row.has_topic for column in COLUMNS
        )
        created = self._administrate(
            K.CREATE_TOPICS,
            5,
            {"topics": [new_topic(name) for name in names], "timeout_ms": 60_000},
        )
        assert not [row for row in created.topics if row.error_code], created.topics
        described = self._administrate(K.METADATA, 10, {"topics": None})
        self._ids = {topic.name: topic.topic_id for topic in described.topics}

    def prepare_coordinators(self) -> None:
        """Permit everything to the administrator; have the internal topics created."""
        for kind in (R.TOPIC, R.GROUP, R.TRANSACTIONAL_ID):
            self.create(
                [(kind, "*", PatternType.LITERAL, ADMINISTRATOR, A.ALL, AclPermissionType.ALLOW)]
            )
        for key_type in (0, 1):
            for _ in range(200):
                response = self._administrate(
                    K.FIND_COORDINATOR, 3, {"key": "prepare", "key_type": key_type}
                )
                if not response.error_code:
                    break

    def create_topic(self, name: str) -> None:
        """Create a topic with one partition."""
        fields = {"topics": [new_topic(name)], "timeout_ms": 15_000}
        (row,) = self._administrate(K.CREATE_TOPICS, 5, fields).topics
        assert not row.error_code, row

    def set_level(self, logger: str, level: str) -> None:
        """Change the level of a logger."""
        fields = configs(8, "0", logger, level)("", None)
        change = {**fields, "validate_only": False}
        (row,) = self._administrate(K.INCREMENTAL_ALTER_CONFIGS, 1, change).responses
        assert not row.error_code, row

    def create(self, entries: Sequence[tuple[Any, ...]]) -> None:
        """Create ACLs: (type, name, pattern, host, operation, permission)."""
        creations = [
            {
                "resource_type": kind,
                "resource_name": name,
                "resource_pattern_type": pattern,
                "principal": PRINCIPAL,
                "host": host,
                "operation": operation,
                "permission_type": permission,
            }
            for kind, name, pattern, host, operation, permission in entries
        ]
        response = self._administrate(K.CREATE_ACLS, 3, {"creations": creations})
        assert not [each for each in response.results if each.error_code], response.results

    def delete(self, hosts: Sequence[str] = (CLIENT, OTHER_HOST)) -> None:
        """Remove the ACLs of these hosts."""
        filters = [
            {
                "resource_type_filter": 1,
                "resource_name_filter": None,
                "pattern_type_filter": 1,
                "principal_filter": PRINCIPAL,
                "host_filter": host,
                "operation": 1,
                "permission_type": 1,
            }
            for host in hosts
        ]
        self._administrate(K.DELETE_ACLS, 3, {"filters": filters})

    def _cell(self, row: Row, column: str) -> Any:
        name = name_of(row, column)
        entries = [entry for need in row.needs for entry in entries_of(need, name, column)]
        if entries:
            self.create(entries)
        fields = row.fields(name, self._ids.get(name, ZERO_UUID))
        wire = HostWire(self._address, CLIENT)
        try:
            response = wire.call(made(messages_of(row.api)[0], fields), row.version)
        except Closed:
            return "closed"
        finally:
            wire.close()
            if entries:
                self.delete()
        return comparable(normalise(response, row.version, Masks()))

    def close(self) -> None:
        """End the connection of the administrator."""
        with suppress(OSError):
            self._administrator.close()


def name_of(row: Row, column: str) -> str:
    base = "m-" + (row.of or row.name).replace(" ", "-")
    return f"{base}.{COLUMNS.index(column)}" if row.is_changed else base


def entries_of(need: Need, name: str, column: str) -> list[tuple[Any, ...]]:
    """(type, name, pattern, host, operation, permission) of the ACLs of a cell."""
    operation, kind = need
    is_cluster = kind is R.CLUSTER
    name = CLUSTER_NAME if is_cluster else name
    allow, deny, literal = AclPermissionType.ALLOW, AclPermissionType.DENY, PatternType.LITERAL
    given = (kind, name, literal, CLIENT, operation, allow)
    match column:
        case "literal":
            return [given]
        case "prefixed":
            # The cluster has one name: a shorter prefix of it is refused.
            prefix = name if is_cluster else name[:-1]
            return [(kind, prefix, PatternType.PREFIXED, CLIENT, operation, allow)]
        case "wildcard":
            everything = A.ALL if is_cluster else operation
            return [(kind, name if is_cluster else "*", literal, CLIENT, everything, allow)]
        case "allow and deny":
            return [given, (kind, name, literal, CLIENT, operation, deny)]
        case "describe only":
            return [(kind, name, literal, CLIENT, A.DESCRIBE, allow)]
        case "wrong resource":
            other = (R.TOPIC, "m-other") if is_cluster else (kind, "m-other")
            return [(*other, literal, CLIENT, operation, allow)]
        case "wrong host":
            return [(kind, name, literal, OTHER_HOST, operation, allow)]
        case _:
            return []


SET: Final = re.compile(r"Set\((.*?)\)")
"""How Scala shows names; ours are shown without it (tests/golden/differences.md)."""


def comparable(value: Any) -> Any:
    """Lists whose order is that of a hash table, in a fixed order; texts without addresses."""
    if isinstance(value, str):
        # Kafka shows the whole request, its buffer included, where ours has no text.
        return None if value.startswith("Request Request(") else SET.sub(r"\1", value)
    if isinstance(value, dict):
        return {key: comparable(each) for key, each in value.items() if key != "throttle_time_ms"}
    if isinstance(value, list):
        return sorted(map(comparable, value), key=lambda each: json.dumps(each, sort_keys=True))
    return value
