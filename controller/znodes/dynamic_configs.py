"""Dynamic configs in `/config`: read all, write one, follow changes.

Every broker reads all configs at its start and then follows the notifications in `/config/changes`,
which name the entity whose config changed.
Source: Kafka's ZkConfigManager, AdminZkClient.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from odradek.controller.coordination.errors import (
    BadArguments,
    BadVersion,
    ConnectionLoss,
    MultiFailed,
    NoAuthorization,
    NodeExists,
    NoNode,
    NotEmpty,
)
from odradek.controller.coordination.session import (
    ANY_VERSION,
    Check,
    CoordinationSession,
    Create,
    Delete,
    SetData,
    Stat,
    ZkOperation,
)
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.change_notifications import ChangeNotifications, Notification
from odradek.controller.znodes.cluster_reading import Warn
from odradek.controller.znodes.config_znodes import (
    decode_config,
    decode_config_change,
    encode_config,
    encode_config_change,
)
from odradek.controller.znodes.fenced_writes import ensure_path, read_all
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.pending import settled

ATTEMPTS_MAX: Final = 10
SHOWN_MAX: Final = 500
"""Characters of the settings in a log line."""

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
USERS: Final = "users"
CLIENTS: Final = "clients"
IPS: Final = "ips"
ENTITY_TYPES: Final = (TOPICS, CLIENTS, USERS, BROKERS, IPS)
NOTHING_DELETED: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Settings of a topic whose own ones cannot be read.

Differs from Kafka: there it has the broker's defaults, which would delete records.
"""
_CHANGED_MEANWHILE: Final = (NodeExists, BadVersion, NoNode, NotEmpty)
_REMOVED_WHEN_EMPTY: Final = (CLIENTS, USERS, IPS)

OnConfig = Callable[[str, str, Mapping[str, str]], None]
"""(entity type, entity as in its path: sanitized, `<default>`, or `user/clients/client`, config).

The config contains all overrides; it is empty when there are none (any more).
"""

ChangeOverrides = Callable[[Mapping[str, str]], Mapping[str, str]]
"""All overrides that are stored -> all that will be."""

logger = logging.getLogger("odradek.configs")


class ConfigChanges:
    """Follows the configs of all entities, and passes each one that changed to `on_config`."""

    def __init__(self, session: CoordinationSession, on_config: OnConfig, warn: Warn) -> None:
        self._session = session
        self._on_config = on_config
        self._warn = warn
        self._notifications = ChangeNotifications(session, zk_data.CONFIG_CHANGE_PREFIX)
        self.folder = self._notifications.folder

    async def load(self) -> None:
        """Read every entity, pass on each that has overrides, watch for changes.

        Changes for which there are notifications already are read with the rest.
        """
        await self._notifications.begin()
        for entity_type in ENTITY_TYPES:
            entities = await self._session.children(f"/config/{entity_type}")
            if entity_type == USERS:
                entities = await with_clients(self._session, entities)
            await self._read(entity_type, entities, is_first=True)

    async def on_changes(self, now_ms: int) -> None:
        """Read the entities of new notifications; remove old notifications."""
        await self._notifications.on_changes(now_ms, self._read_changed)

    async def _read_changed(self, notifications: Sequence[Notification]) -> None:
        changed: dict[str, dict[str, None]] = {}
        for path, data in notifications:
            try:
                entity_type, entity = decode_config_change(data)
            except zk_data.BadZnode as error:
                self._warn(f"{path}: {error}")
                continue
            changed.setdefault(entity_type, {})[entity] = None
        for entity_type in changed:
            await self._read(entity_type, list(changed[entity_type]))

    async def _read(self, entity_type: str, entities: list[str], *, is_first: bool = False) -> None:
        configs = await _read_configs(self._session, entity_type, entities, self._warn)
        for entity, config in zip(entities, configs, strict=True):
            if config is not None:
                if config or not is_first:
                    self._on_config(entity_type, entity, config)
            elif is_first and entity_type == TOPICS:
                self._on_config(entity_type, entity, NOTHING_DELETED)


async def read_topic_configs(
    session: CoordinationSession, topics: list[str], warn: Warn
) -> dict[str, dict[str, str]]:
    """The overrides of each topic; empty where there are none, `NOTHING_DELETED` where they cannot
    be read."""
    configs = await _read_configs(session, TOPICS, topics, warn)
    return {
        topic: dict(NOTHING_DELETED) if config is None else config
        for topic, config in zip(topics, configs, strict=True)
    }


async def _read_configs(
    session: CoordinationSession, entity_type: str, entities: list[str], warn: Warn
) -> list[dict[str, str] | None]:
    """The overrides of each entity; empty where there are none.

    None, with a warning: they are damaged, or the service refuses to read this znode whenever it is
    asked, as with an ACL.  Requests that wait for it would wait for ever, with all after them.

    raises  CoordinationError that may pass
    """
    paths = [zk_data.config_path(entity_type, entity) for entity in entities]
    configs: list[dict[str, str] | None] = []
    reads = await settled([session.get(path) for path in paths])
    for entity, read in zip(entities, reads, strict=True):
        try:
            configs.append(decode_config(read.result()[0]))
        except NoNode:
            configs.append({})
        except zk_data.BadZnode as error:
            warn(f"config of {entity_type} {entity}: {error}")
            configs.append(None)
        except (NoAuthorization, BadArguments) as error:
            warn(f"config of {entity_type} {entity}: {type(error).__name__} when it is read")
            configs.append(None)
    return configs


async def write_config(
    session: CoordinationSession,
    entity_type: str,
    entity: str,
    change: ChangeOverrides,
    *,
    requested_by: str,
) -> None:
    """Change the overrides of an entity by compare-and-set, and notify all brokers.

    entity  sanitized, as in its path
    change  what is stored -> what will be; may raise BrokerError
    raises  BrokerError UNKNOWN_SERVER_ERROR when there is no controller, or a KRaft one took over
    """
    try:
        data, stat = await session.get(zk_data.CONTROLLER)
    except NoNode:
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "there is no controller") from None
    if zk_data.ControllerZnode.decode(data).kraft_controller_epoch > 0:
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "a KRaft controller has taken over")
    check = Check(zk_data.CONTROLLER, stat.version)
    notification = encode_config_change(f"{entity_type}/{entity}")
    # Differs from Kafka: the notification is in the same multi, so none is lost with its writer;
    # and the version is checked, so that of two brokers that change an entity none loses a change.
    notify = Create(zk_data.CONFIG_CHANGE_PREFIX, notification, sequential=True)
    path = zk_data.config_path(entity_type, entity)
    for _ in range(ATTEMPTS_MAX):
        (znode,) = await read_all(session, [path])
        config = change({} if znode is None else decode_config(znode[0]))
        writes = await _writes_of(
            session, entity_type, entity, None if znode is None else znode[1], config
        )
        try:
            await session.multi([check, *writes, notify])
        except ConnectionLoss:
            if await _is_written(session, path, writes[0]):
                _log_stored(entity_type, entity, config, requested_by)
                return
        except MultiFailed as failed:
            if failed.index == 0:
                raise BrokerError(
                    ErrorCode.UNKNOWN_SERVER_ERROR, "the controller has just changed"
                ) from failed
            is_write = 1 <= failed.index <= len(writes)
            if is_write and isinstance(writes[0], Create) and isinstance(failed.error, NoNode):
                await ensure_path(session, path[: path.rindex("/")])
            elif not is_write or not isinstance(failed.error, _CHANGED_MEANWHILE):
                raise failed.error from failed
        else:
            _log_stored(entity_type, entity, config, requested_by)
            return
    raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the config kept changing")


async def forget_broker_configs(
    session: CoordinationSession, broker_id: int, warn: Warn
) -> dict[str, tuple[str, ...]]:
    """Remove the dynamic settings of a broker and those of all brokers; other brokers are notified.

    returns  entity -> names of the settings that were removed; `<default>` for all brokers
    """
    removed: dict[str, tuple[str, ...]] = {}
    for entity in (str(broker_id), zk_data.DEFAULT_ENTITY):
        path = zk_data.config_path(BROKERS, entity)
        (znode,) = await read_all(session, [path])
        if znode is None:
            continue
        try:
            names = tuple(decode_config(znode[0]))
        except zk_data.BadZnode as error:
            warn(f"config of {BROKERS} {entity}: {error}")
            names = ("settings that cannot be read",)
        if names:
            await session.set(path, encode_config({}))
            notification = encode_config_change(f"{BROKERS}/{entity}")
            await session.create(zk_data.CONFIG_CHANGE_PREFIX, notification, sequential=True)
            removed[entity] = names
    return removed


async def _is_written(session: CoordinationSession, path: str, write: ZkOperation) -> bool:
    """Whether a write whose response was lost has taken effect."""
    (znode,) = await read_all(session, [path])
    match write:
        case Create(data=data):
            return znode is not None and znode[1].version == 0 and znode[0] == data
        case SetData(data=data, version=version):
            return znode is not None and znode[1].version == version + 1 and znode[0] == data
        case _:
            return znode is None


async def _writes_of(
    session: CoordinationSession,
    entity_type: str,
    entity: str,
    stat: Stat | None,
    config: Mapping[str, str],
) -> list[ZkOperation]:
    """The write of the config, and removals of znodes that have nothing left with it.

    A user with clients keeps its znode.
    """
    path = zk_data.config_path(entity_type, entity)
    is_removed = not config and entity_type in _REMOVED_WHEN_EMPTY
    if stat is None:
        if is_removed:
            return [Check(f"/config/{entity_type}", ANY_VERSION)]
        return [Create(path, encode_config(config))]
    if not is_removed or stat.children_count:
        return [SetData(path, encode_config(config), stat.version)]
    writes: list[ZkOperation] = [Delete(path, stat.version)]
    user, clients, _ = entity.partition(f"/{CLIENTS}/")
    if entity_type == USERS and clients:
        user_path = zk_data.config_path(USERS, user)
        clients_path = f"{user_path}/{CLIENTS}"
        of_clients, of_user = await read_all(session, [clients_path, user_path])
        if of_clients is not None and of_clients[1].children_count == 1:
            writes.append(Delete(clients_path, of_clients[1].version))
            if of_user is not None and not _has_config(of_user[0]):
                writes.append(Delete(user_path, of_user[1].version))
    return writes


def _has_config(data: bytes | None) -> bool:
    try:
        return bool(data) and bool(decode_config(data))
    except zk_data.BadZnode:
        return True


async def read_entities(
    session: CoordinationSession, entity_type: str, warn: Warn
) -> dict[str, dict[str, str]]:
    """The config of every entity of a type, as it is stored.

    cost  a read for each entity
    """
    entities = await session.children(f"/config/{entity_type}")
    if entity_type == USERS:
        entities = await with_clients(session, entities)
    configs = await _read_configs(session, entity_type, entities, warn)
    return {entity: config or {} for entity, config in zip(entities, configs, strict=True)}


async def with_clients(session: CoordinationSession, users: list[str]) -> list[str]:
    """Users, and the client ids that have a config for one of them."""
    entities = list(users)
    for user in users:
        try:
            clients = await session.children(f"/config/{USERS}/{user}/{CLIENTS}")
        except NoNode:
            continue
        entities.extend(f"{user}/{CLIENTS}/{client}" for client in clients)
    return entities


def _log_stored(
    entity_type: str, entity: str, config: Mapping[str, str], requested_by: str
) -> None:
    # Values of brokers and users may be secret; those of topics are not.
    shown = (f"{key}={config[key]}" if entity_type == TOPICS else key for key in config)
    logger.info(
        "settings of %s %s are stored: %s, by %s",
        entity_type,
        entity,
        ", ".join(shown)[:SHOWN_MAX] or "none",
        requested_by,
    )
