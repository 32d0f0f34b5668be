"""Decides what principals may do, by the access control lists of the cluster.

Decisions are kept until the next change of an ACL: the same question again costs some look-ups in
dicts and no memory.
Source: Kafka's AclAuthorizer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from odradek.broker.security.acl.acl_cache import AclCache
from odradek.broker.security.acl.acl_filter import AclBindingFilter
from odradek.broker.security.acl.permission import PERMISSIONS, Permission
from odradek.broker.security.kafka_principal import KafkaPrincipal
from odradek.broker.settings.authorizer import AuthorizerSettings
from odradek.controller.coordination.errors import PROCEDURE_ERRORS, CoordinationError
from odradek.controller.znodes.acl_store import AclStore
from odradek.protocol.acl import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclEntries,
    PatternType,
    ResourcePattern,
    ResourceType,
    pascal_case,
)
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.logging import observe_levels
from odradek.runtime.pending import Pending
from odradek.runtime.work import Defer, SerialQueue, pause, shares

if TYPE_CHECKING:
    from odradek.controller.controller import Controller

DECISIONS_MAX: Final = 50_000
"""Decisions that are kept; beyond them all are dropped.  One takes some 150 bytes and its name."""
KEPT_NAME_MAX: Final = 249
"""Characters of the names of resources in decisions that are kept: those of a topic."""
SHOWN_NAME_MAX: Final = 300
ANY_NAME: Final = None
"""In place of the name of a resource: at least one of the type."""

logger = logging.getLogger("odradek.authorizer")
audit_logger = logging.getLogger("odradek.audit")
if audit_logger.level == logging.NOTSET:
    # Lines for machines, which are written when a level is set: INFO for denials, DEBUG for all.
    audit_logger.setLevel(logging.CRITICAL)


class AuthorizableRequest(Protocol):
    """Who asks, from where, and for what API (Kafka: AuthorizableRequestContext)."""

    principal: KafkaPrincipal
    client_host: str
    api_key: int


class DeletedAcl(NamedTuple):
    """An entry that a filter matched."""

    resource: ResourcePattern
    entry: AccessControlEntry
    error: ErrorCode
    """NONE, or why it is still there."""


Decisions = dict[Permission, dict[str | None, bool]]


class Authorizer:
    """The authorizer of one broker.  `begin` comes before the first decision."""

    def __init__(self, settings: AuthorizerSettings) -> None:
        self._super_users = settings.super_users
        self._cache = AclCache(
            allow_everyone_if_no_acl_found=settings.allow_everyone_if_no_acl_found
        )
        self._decisions: dict[KafkaPrincipal, dict[str, Decisions]] = {}
        self._decisions_count = 0
        self._stores: dict[PatternType, AclStore] = {}
        self._executor = SerialQueue(*PROCEDURE_ERRORS)
        self._logs_allowed = False
        """Whether allowed requests are logged, which nearly all are."""
        self.on_logger_level()
        observe_levels(self)

    def on_logger_level(self) -> None:
        """Log what is allowed from now on, or no more."""
        loggers = logger, audit_logger
        self._logs_allowed = any(each.isEnabledFor(logging.DEBUG) for each in loggers)

    def begin(self, controller: Controller) -> None:
        """Have the ACLs loaded with what else the start reads, and followed."""
        for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
            self._stores[pattern_type] = controller.follow(
                partial(AclStore, pattern_type=pattern_type, on_acls=self._on_acls)
            )

    def serve(self, defer: Defer) -> None:
        """Clients are served from now on: long work is divided into turns of the loop."""
        self._executor.serve(defer)

    def _on_acls(self, resource: ResourcePattern, entries: AclEntries) -> None:
        self._cache.put(resource, entries)
        self._forget_decisions()

    def _forget_decisions(self) -> None:
        self._decisions = {}
        self._decisions_count = 0

    def authorize(
        self,
        request: AuthorizableRequest,
        permission: Permission,
        name: str = CLUSTER_NAME,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        """Whether the request may do it to the resource of this name.

        log_if_allowed  whether access is given when this is allowed (DEBUG)
        log_if_denied   whether access to this very resource was asked for (INFO)
        cost            0.3 us for a decision that is kept
        """
        try:
            is_allowed = self._decisions[request.principal][request.client_host][permission][name]
        except KeyError:
            is_allowed = self._decide(request, permission, name)
        if is_allowed:
            if self._logs_allowed and log_if_allowed:
                self._log(request, permission, name, is_allowed=True)
        elif log_if_denied:
            self._log(request, permission, name, is_allowed=is_allowed)
        return is_allowed

    def authorize_by_resource_type(
        self, request: AuthorizableRequest, permission: Permission
    ) -> bool:
        """Whether the request may do it to at least one resource of the type (KIP-679)."""
        try:
            decisions = self._decisions[request.principal][request.client_host]
            is_allowed = decisions[permission][ANY_NAME]
        except KeyError:
            is_allowed = self._decide(request, permission, ANY_NAME)
        self._log(request, permission, ANY_NAME, is_allowed=is_allowed)
        return is_allowed

    def authorized_operations(
        self, request: AuthorizableRequest, resource_type: ResourceType, name: str
    ) -> int:
        """What the request may do to a resource: bit n stands for the operation n."""
        operations = 0
        for permission in PERMISSIONS[resource_type]:
            if self.authorize(request, permission, name, log_if_allowed=False, log_if_denied=False):
                operations |= 1 << permission.operation
        return operations

    def _decide(
        self, request: AuthorizableRequest, permission: Permission, name: str | None
    ) -> bool:
        principal = request.principal
        text = f"{principal.principal_type}:{principal.name}"
        operation, resource_type = permission.operation, permission.resource_type
        if text in self._super_users:
            is_allowed = True
        else:
            host = java_address(request.client_host)
            if name is None:
                is_allowed = self._cache.authorize_by_resource_type(
                    text, host, operation, resource_type
                )
            else:
                is_allowed = self._cache.authorize(text, host, operation, resource_type, name)
        if name is None or len(name) <= KEPT_NAME_MAX:
            if self._decisions_count >= DECISIONS_MAX:
                self._forget_decisions()
            hosts = self._decisions.setdefault(principal, {})
            decisions = hosts.setdefault(request.client_host, {})
            decisions.setdefault(permission, {})[name] = is_allowed
            self._decisions_count += 1
        return is_allowed

    def _log(
        self,
        request: AuthorizableRequest,
        permission: Permission,
        name: str | None,
        *,
        is_allowed: bool,
    ) -> None:
        level = logging.DEBUG if is_allowed else logging.INFO
        is_logged, is_audited = logger.isEnabledFor(level), audit_logger.isEnabledFor(level)
        if not (is_logged or is_audited):
            return
        operation = pascal_case(permission.operation)
        resource_type = pascal_case(permission.resource_type)
        api = pascal_case(ApiKey(request.api_key))
        shown = "any" if name is None else name[:SHOWN_NAME_MAX]
        if is_logged:
            logger.log(
                level,
                "Principal = %s is %s Operation = %s from host = %s on resource = %s:LITERAL:%s"
                " for request = %s",
                request.principal,
                "Allowed" if is_allowed else "Denied",
                operation,
                request.client_host,
                resource_type,
                shown,
                api,
            )
        if is_audited:
            line = {
                "principal": str(request.principal),
                "host": request.client_host,
                "operation": operation,
                "resource_type": resource_type,
                "resource": shown,
                "request": api,
                "allowed": is_allowed,
            }
            audit_logger.log(level, "%s", json.dumps(line))

    def resources(self) -> list[ResourcePattern]:
        """The resources that have entries."""
        return self._cache.resources()

    def entries(self, resource: ResourcePattern) -> AclEntries:
        """The entries of exactly this pattern, as far as this broker has read them."""
        return self._cache.entries(resource)

    def create_acls(
        self, bindings: Sequence[tuple[ResourcePattern, AccessControlEntry]]
    ) -> Pending[list[ErrorCode]]:
        """Add entries that were checked; the error of each, in their order."""
        by_resource: dict[ResourcePattern, dict[AccessControlEntry, None]] = {}
        for resource, entry in bindings:
            by_resource.setdefault(resource, {})[entry] = None

        async def run() -> list[ErrorCode]:
            errors: dict[ResourcePattern, ErrorCode] = {}
            for resource, added in by_resource.items():
                errors[resource] = await self._update(resource, partial(_with, tuple(added)))
                await pause()
            return [errors[resource] for resource, _ in bindings]

        return self._executor.submit(run)

    def delete_acls(self, filters: Sequence[AclBindingFilter]) -> Pending[list[list[DeletedAcl]]]:
        """Remove all entries that match; for each filter those that no earlier one matched."""

        async def run() -> list[list[DeletedAcl]]:
            deleted: list[list[DeletedAcl]] = [[] for _ in filters]
            for resource, numbers in (await self._matched(filters)).items():
                removed: dict[AccessControlEntry, int] = {}
                matching = [(number, filters[number]) for number in sorted(numbers)]
                error = await self._update(resource, partial(_without, matching, removed))
                for entry, number in removed.items():
                    deleted[number].append(DeletedAcl(resource, entry, error))
            return deleted

        return self._executor.submit(run)

    async def _matched(
        self, filters: Sequence[AclBindingFilter]
    ) -> dict[ResourcePattern, list[int]]:
        """The filters that may match entries of each resource.

        A resource that a filter names is among them even if this broker has not read of it.
        """
        matched: dict[ResourcePattern, list[int]] = {}
        resources = self._cache.resources()
        for number, row in enumerate(filters):
            only = row.only_resource()
            if only is not None:
                matched.setdefault(only, []).append(number)
                await pause()
                continue
            for share in shares(resources):
                for resource in share:
                    if row.matches_resource(resource):
                        matched.setdefault(resource, []).append(number)
                await pause()
        return matched

    async def _update(
        self, resource: ResourcePattern, change: Callable[[AclEntries], AclEntries]
    ) -> ErrorCode:
        try:
            await self._stores[resource.pattern_type].update(resource, change)
        except (CoordinationError, BrokerError) as error:
            logger.warning("ACLs of %s cannot be stored: %r", resource, error)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return ErrorCode.NONE


def _with(added: AclEntries, stored: AclEntries) -> AclEntries:
    return tuple(dict.fromkeys((*stored, *added)))


def _without(
    filters: Sequence[tuple[int, AclBindingFilter]],
    removed: dict[AccessControlEntry, int],
    stored: AclEntries,
) -> AclEntries:
    """The entries that no filter matches; `removed` gets the others, with the first that does."""
    removed.clear()
    for entry in stored:
        for number, row in filters:
            if row.matches_entry(entry):
                removed[entry] = number
                break
    return tuple(entry for entry in stored if entry not in removed)


def java_address(host: str) -> str:
    """An address as Kafka compares it with the hosts of entries (InetAddress.getHostAddress)."""
    if ":" not in host:
        return host
    # Imported for clients with IPv6 only: a start need not read it.
    from ipaddress import IPv6Address

    address, percent, scope = host.partition("%")
    try:
        parsed = IPv6Address(address)
    except ValueError:
        return host
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    groups = (group.lstrip("0") or "0" for group in parsed.exploded.split(":"))
    return f"{':'.join(groups)}{percent}{scope}"
