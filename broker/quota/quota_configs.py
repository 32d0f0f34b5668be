"""What is stored of quotas: which entity, which settings, and how numbers are written.

Pure.
Differs from Kafka: users and client ids `.` and `..` are refused with a reason, not with
UNKNOWN_SERVER_ERROR.
Source: KIP-546; Kafka's ZkAdminManager, DynamicConfig, QuotaConfigs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from odradek.broker.quota.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from odradek.broker.settings.types import double_text
from odradek.controller.znodes.dynamic_configs import CLIENTS, IPS, USERS
from odradek.controller.znodes.sanitizer import NOT_NODES, desanitized, sanitized
from odradek.controller.znodes.zk_data import DEFAULT_ENTITY
from odradek.protocol.errors import BrokerError, ErrorCode

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

LONG: Final = "LONG"
INT: Final = "INT"
DOUBLE: Final = "DOUBLE"
STRING: Final = "STRING"
CLIENT_SETTINGS: Final = {
    PRODUCER_BYTE_RATE: LONG,
    CONSUMER_BYTE_RATE: LONG,
    REQUEST_PERCENTAGE: DOUBLE,
    CONTROLLER_MUTATION_RATE: DOUBLE,
}
USER_SETTINGS: Final = {**CLIENT_SETTINGS, "SCRAM-SHA-256": STRING, "SCRAM-SHA-512": STRING}
IP_SETTINGS: Final = {CONNECTION_CREATION_RATE: INT}
BITS: Final = {LONG: 63, INT: 31}
EPSILON: Final = 1e-6
"""How far a number may be from a whole one."""


class Operation(Protocol):
    """A change of one quota."""

    key: str
    value: float
    remove: bool


class EntityPart(Protocol):
    """A user, client id or address; no name means the default one."""

    entity_type: str
    entity_name: str | None


class StoredEntity(NamedTuple):
    """Where quotas of an entity are stored, and which there can be."""

    entity_type: str
    """`users`, `clients` or `ips`."""
    path: str
    """Sanitized, as in the path of its znode."""
    settings: Mapping[str, str]
    """Name -> type."""


def stored_entity(parts: Iterable[EntityPart]) -> StoredEntity:
    """The entity of a request.

    raises  BrokerError INVALID_REQUEST; an address is not looked at
    """
    names: dict[str, str | None] = {part.entity_type: part.entity_name for part in parts}
    if not names:
        raise _invalid("Invalid empty client quota entity")
    for entity_type, name in names.items():
        if entity_type not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            raise _invalid(f"Empty {entity_type} not supported")
        if name in NOT_NODES and entity_type != IP:
            raise _invalid(f"{entity_type} '{name}' not supported")
    paths = {
        entity_type: DEFAULT_ENTITY if name is None else sanitized(name)
        for entity_type, name in names.items()
    }
    if IP in paths:
        if len(paths) > 1:
            raise _invalid(
                "Invalid quota entity combination, IP entity should not be used with "
                "user/client ID entity."
            )
        return StoredEntity(IPS, paths[IP], IP_SETTINGS)
    if USER not in paths:
        return StoredEntity(CLIENTS, paths[CLIENT_ID], CLIENT_SETTINGS)
    if CLIENT_ID not in paths:
        return StoredEntity(USERS, paths[USER], USER_SETTINGS)
    return StoredEntity(USERS, f"{paths[USER]}/{CLIENTS}/{paths[CLIENT_ID]}", USER_SETTINGS)


def changed(
    stored: Mapping[str, str], operations: Iterable[Operation], settings: Mapping[str, str]
) -> dict[str, str]:
    """The config of an entity after the changes of a request.

    raises  BrokerError INVALID_REQUEST; UNKNOWN_SERVER_ERROR for a credential
    """
    config = dict(stored)
    for operation in operations:
        key = operation.key
        if operation.remove:
            config.pop(key, None)
            continue
        kind = settings.get(key)
        if kind is None:
            raise _invalid(f"Invalid configuration key {key}")
        if kind == STRING:
            raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
        config[key] = _written(key, kind, operation.value)
    return config


def _written(key: str, kind: str, value: float) -> str:
    if kind == DOUBLE:
        return double_text(value)
    largest = 2 ** BITS[kind] - 1
    whole = 0 if value != value else int(max(-largest - 1, min(value + EPSILON, largest)))
    if abs(float(whole) - value) > EPSILON:
        raise _invalid(f"Configuration {key} must be a {kind} value")
    return str(whole)


def entity_names(entity_type: str, path: str) -> dict[str, str | None]:
    """Type -> name of the parts of a stored entity."""
    if entity_type == USERS:
        user, clients, client_id = path.partition(f"/{CLIENTS}/")
        names = {USER: _name(user)}
        if clients:
            names[CLIENT_ID] = _name(client_id)
        return names
    return {CLIENT_ID if entity_type == CLIENTS else IP: _name(path)}


def quotas_of(entity_type: str, config: Mapping[str, str]) -> dict[str, float]:
    """The quotas of an entity, by name; its credentials are left out.

    raises  BrokerError UNKNOWN_SERVER_ERROR for what is not a number
    """
    names = IP_SETTINGS if entity_type == IPS else CLIENT_SETTINGS
    try:
        return {name: float(text) for name, text in config.items() if name in names}
    except ValueError:
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR) from None


def _name(entity: str) -> str | None:
    return None if entity == DEFAULT_ENTITY else desanitized(entity)


def _invalid(message: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, message)
