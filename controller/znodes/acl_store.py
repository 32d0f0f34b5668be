"""The access control lists of the cluster: read all, write those of a resource, follow changes.

Source: Kafka's AclAuthorizer, KafkaZkClient.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from odradek.controller.coordination.errors import (
    BadVersion,
    ConnectionLoss,
    MultiFailed,
    NodeExists,
    NoNode,
)
from odradek.controller.coordination.session import (
    CoordinationSession,
    Create,
    Delete,
    SetData,
    Stat,
    ZkOperation,
)
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.acl_znodes import (
    ACL_CHANGE_PREFIXES,
    ACL_FOLDERS,
    acls_path,
    decode_acl_change,
    decode_acls,
    encode_acl_change,
    encode_acls,
    resource_type_named,
)
from odradek.controller.znodes.change_notifications import ChangeNotifications, Notification
from odradek.controller.znodes.cluster_reading import Warn
from odradek.controller.znodes.fenced_writes import ensure_path, read_all
from odradek.protocol.acl import (
    RESOURCE_TYPES,
    AclEntries,
    PatternType,
    ResourcePattern,
    ResourceType,
    pascal_case,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.work import pause, shares

ATTEMPTS_MAX: Final = 10

ChangeEntries = Callable[[AclEntries], AclEntries]
"""The entries that are stored -> those that will be."""
OnAcls = Callable[[ResourcePattern, AclEntries], None]
"""Called with the entries of a resource after they have changed."""

logger = logging.getLogger("odradek.acls")


class VersionedAcls(NamedTuple):
    entries: AclEntries
    version: int
    """The version of the znode; -1 when there is none."""


NO_ACLS: Final = VersionedAcls((), -1)


class AclStore:
    """The entries of all resources of one pattern type, as far as this broker has read them."""

    def __init__(
        self,
        session: CoordinationSession,
        warn: Warn,
        *,
        pattern_type: PatternType,
        on_acls: OnAcls,
    ) -> None:
        self._session = session
        self._warn = warn
        self._pattern_type = pattern_type
        self._on_acls = on_acls
        self._notifications = ChangeNotifications(session, ACL_CHANGE_PREFIXES[pattern_type])
        self.folder = self._notifications.folder
        self._acls: dict[ResourcePattern, VersionedAcls] = {}

    async def load(self) -> None:
        """Create the folders, watch for changes, read the entries of all resources.

        raises  BadZnode: what is denied there is unknown.  Kafka's broker does not start either.
        """
        folder = ACL_FOLDERS[self._pattern_type]
        for resource_type in RESOURCE_TYPES:
            await ensure_path(self._session, f"{folder}/{pascal_case(resource_type)}")
        await ensure_path(self._session, self.folder)
        await self._notifications.begin()
        resources: list[ResourcePattern] = []
        for name in await self._session.children(folder):
            resource_type = resource_type_named(name)
            if resource_type <= ResourceType.ANY:
                self._warn(f"{folder}/{name}: ACLs of an unknown type of resources are ignored")
                continue
            path = f"{folder}/{pascal_case(resource_type)}"
            resources += [
                ResourcePattern(resource_type, resource, self._pattern_type)
                for resource in await self._session.children(path)
            ]
        present = dict.fromkeys(resources)
        for resource in [resource for resource in self._acls if resource not in present]:
            self._keep(resource, NO_ACLS)
        for share in shares(resources):
            await self._read(share)

    async def on_changes(self, now_ms: int) -> None:
        """Read the entries of the resources that new notifications name."""
        await self._notifications.on_changes(now_ms, self._read_changed)

    async def _read_changed(self, notifications: Sequence[Notification]) -> None:
        changed: dict[ResourcePattern, None] = {}
        for path, data in notifications:
            try:
                changed[decode_acl_change(data, self._pattern_type)] = None
            except zk_data.BadZnode as error:
                self._warn(f"{path}: {error}")
        for share in shares(list(changed)):
            try:
                await self._read(share)
            except zk_data.BadZnode as error:
                # The entries that were read before stay in force, as in Kafka.
                self._warn(str(error))

    async def _read(self, resources: Sequence[ResourcePattern]) -> None:
        paths = [acls_path(resource) for resource in resources]
        damage: zk_data.BadZnode | None = None
        for resource, path, znode in zip(
            resources, paths, await read_all(self._session, paths), strict=True
        ):
            await pause()
            try:
                acls = NO_ACLS if znode is None else _decode(path, *znode)
            except zk_data.BadZnode as error:
                damage = error
            else:
                self._keep(resource, acls)
        if damage is not None:
            raise damage

    def _keep(self, resource: ResourcePattern, acls: VersionedAcls) -> None:
        former = self._acls.get(resource, NO_ACLS)
        if acls.version < 0:
            self._acls.pop(resource, None)
        else:
            self._acls[resource] = acls
        if acls.entries != former.entries:
            self._on_acls(resource, acls.entries)

    async def update(self, resource: ResourcePattern, change: ChangeEntries) -> None:
        """Change the entries of a resource by compare-and-set, and notify all brokers.

        change  may be called again, with other entries
        raises  BrokerError UNKNOWN_SERVER_ERROR when they kept changing; CoordinationError
        """
        path = acls_path(resource)
        acls = self._acls.get(resource)
        for _ in range(ATTEMPTS_MAX + 1):
            if acls is None:
                (znode,) = await read_all(self._session, [path])
                acls = NO_ACLS if znode is None else _decode(path, *znode)
            entries = change(acls.entries)
            if entries == acls.entries:
                self._keep(resource, acls)
                return
            # Differs from Kafka: the notification is in the same multi, so none is lost with its
            # writer.
            notify = Create(
                ACL_CHANGE_PREFIXES[self._pattern_type],
                encode_acl_change(resource),
                sequential=True,
            )
            try:
                await self._session.multi([_write_of(path, entries, acls.version), notify])
            except ConnectionLoss:
                pass  # the next attempt finds out whether it is written
            except MultiFailed as failed:
                if failed.index != 0 or not isinstance(
                    failed.error, BadVersion | NodeExists | NoNode
                ):
                    raise failed.error from failed
                if isinstance(failed.error, NoNode) and acls.version < 0:
                    await ensure_path(self._session, path[: path.rindex("/")])
            else:
                self._keep(resource, VersionedAcls(entries, acls.version + 1 if entries else -1))
                logger.info("ACLs of %s are stored: %d entries", resource, len(entries))
                return
            acls = None
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the ACLs kept changing")


def _decode(path: str, data: bytes | None, stat: Stat) -> VersionedAcls:
    try:
        return VersionedAcls(decode_acls(data), stat.version)
    except zk_data.BadZnode as error:
        raise zk_data.BadZnode(f"{path}: {error}") from error


def _write_of(path: str, entries: AclEntries, version: int) -> ZkOperation:
    if not entries:
        return Delete(path, version)
    if version < 0:
        return Create(path, encode_acls(entries))
    return SetData(path, encode_acls(entries), version)
