"""The requests of a session as kazoo's messages, and kazoo's results as those of a session.

kazoo's public calls refuse null data within a transaction, which Kafka's registration writes; its
messages do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from odradek.controller.coordination.errors import (
    AuthenticationFailed,
    BadArguments,
    BadVersion,
    ConnectionLoss,
    CoordinationError,
    MultiFailed,
    NoAuthorization,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
)
from odradek.controller.coordination.session import (
    Check,
    Create,
    Delete,
    SetData,
    Stat,
    ZkOperation,
    ZkResult,
)


class Access(Enum):
    """The ACL of a node."""

    OPEN = 1
    """Everyone may do everything."""
    READABLE = 2
    """Its creator may do everything, everyone else may read it."""
    CLOSED = 3
    """Only its creator may do anything."""


SENSITIVE_ROOTS: Final = ("/config/users", "/config/brokers", "/delegation_token")
"""Below them are passwords."""

ROLLED_BACK: Final = 0
"""ZooKeeper's code for an operation of a multi before the one that failed."""

ERRORS: Final[dict[int, type[CoordinationError]]] = {
    error.code: error
    for error in (
        ConnectionLoss,
        BadArguments,
        NoNode,
        NoAuthorization,
        BadVersion,
        NoChildrenForEphemerals,
        NodeExists,
        NotEmpty,
        SessionExpired,
        AuthenticationFailed,
    )
}


@dataclass(frozen=True, slots=True)
class Get:
    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Exists:
    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Children:
    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Multi:
    operations: tuple[ZkOperation, ...]


ZkRequest = ZkOperation | Get | Exists | Children | Multi


def is_read(request: ZkRequest) -> bool:
    """Whether the request may be repeated without effect."""
    return isinstance(request, Get | Exists | Children)


def access_of(path: str) -> Access:
    """The ACL of a node with zookeeper.set.acl; the path is relative to the cluster's root.

    Source: Kafka's ZkData.defaultAcls.
    """
    if path == "/consumers":
        return Access.OPEN
    return Access.CLOSED if path.startswith(SENSITIVE_ROOTS) else Access.READABLE


def kazoo_request(
    request: ZkRequest, watcher: Callable[[Any], None], access: Callable[[str], Access]
) -> Any:
    """The message for a request; its paths are those of the server.

    access  (path) -> the ACL of a node that is created there
    """
    from kazoo.protocol import serialization
    from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

    match request:
        case Create(path, data, ephemeral, sequential):
            flags = (1 if ephemeral else 0) | (2 if sequential else 0)
            acl = {
                Access.OPEN: OPEN_ACL_UNSAFE,
                Access.READABLE: [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE],
                Access.CLOSED: CREATOR_ALL_ACL,
            }[access(path)]
            return serialization.Create(path, data, acl, flags)
        case Delete(path, version):
            return serialization.Delete(path, version)
        case SetData(path, data, version):
            return serialization.SetData(path, data, version)
        case Check(path, version):
            return serialization.CheckVersion(path, version)
        case Get(path, watch):
            return serialization.GetData(path, watcher if watch else None)
        case Exists(path, watch):
            return serialization.Exists(path, watcher if watch else None)
        case Children(path, watch):
            return serialization.GetChildren2(path, watcher if watch else None)
        case Multi(operations):
            return serialization.Transaction(
                [kazoo_request(operation, watcher, access) for operation in operations]
            )


def session_result(request: ZkRequest, value: Any) -> Any:
    """The result for kazoo's.

    Get: (data, Stat).  Exists: Stat or None.  Children: (sorted names, Stat).  Multi: a list of
    results.  Others: as ZkResult.
    raises  MultiFailed
    """
    match request:
        case Get():
            return value[0], session_stat(value[1])
        case Exists():
            return None if value is None else session_stat(value)
        case Children():
            return sorted(value[0]), session_stat(value[1])
        case Multi():
            return multi_results(value)
        case _:
            return single_result(value)


def multi_results(values: Sequence[Any]) -> list[ZkResult]:
    """kazoo reports a transaction that failed as a list of errors.

    raises  MultiFailed
    """
    failed = [
        index
        for index, value in enumerate(values)
        if isinstance(value, Exception) and getattr(value, "code", None) != ROLLED_BACK
    ]
    if failed:
        raise MultiFailed(failed[0], session_error(values[failed[0]]), len(values))
    return [single_result(value) for value in values]


def single_result(value: Any) -> ZkResult:
    """kazoo's results of Delete and Check are True."""
    if isinstance(value, str):
        return value
    return None if value is True else session_stat(value)


def session_stat(znode_stat: Any) -> Stat:
    """kazoo's ZnodeStat, without its acl version."""
    return Stat(
        czxid=znode_stat.czxid,
        mzxid=znode_stat.mzxid,
        pzxid=znode_stat.pzxid,
        ctime_ms=znode_stat.ctime,
        mtime_ms=znode_stat.mtime,
        version=znode_stat.version,
        cversion=znode_stat.cversion,
        ephemeral_owner=znode_stat.ephemeralOwner,
        data_bytes=znode_stat.dataLength,
        children_count=znode_stat.numChildren,
    )


def session_error(error: Exception) -> CoordinationError:
    """The error of a session for one of kazoo's."""
    if isinstance(error, CoordinationError):
        return error
    kind = ERRORS.get(getattr(error, "code", 0))
    return CoordinationError(repr(error)) if kind is None else kind(str(error))
