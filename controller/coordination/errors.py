"""The errors of a coordination session; codes are ZooKeeper's (KeeperException.Code)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.protocol.errors import BrokerError


class CoordinationError(Exception):
    code = -1


class StorageFailed(CoordinationError):
    """The disk of the embedded tree failed (ZooKeeper: SystemError).

    The write did not take effect; after a failed sync, which puts the tree out of use, it may have.
    """

    code = -1


class RuntimeInconsistency(CoordinationError):
    """This operation of a multi was not tried: an earlier one failed."""

    code = -2


class TooManyWatches(CoordinationError):
    """The watches of the session use as much memory as they may; none was set."""

    code = -1


class ConnectionLoss(CoordinationError):
    """The connection was lost before the response; a write may have taken effect."""

    code = -4


class Unimplemented(CoordinationError):
    """The service does not have this operation."""

    code = -6


class BadArguments(CoordinationError):
    """A malformed path, or data above the limit."""

    code = -8


class NoNode(CoordinationError):
    """The node, or its parent, does not exist."""

    code = -101


class NoAuthorization(CoordinationError):
    """The node's ACL does not permit the operation to this session (ZooKeeper: NoAuth)."""

    code = -102


class BadVersion(CoordinationError):
    """The node's data version is not the expected one."""

    code = -103


class NoChildrenForEphemerals(CoordinationError):
    """An ephemeral node cannot have children."""

    code = -108


class NodeExists(CoordinationError):
    code = -110


class NotEmpty(CoordinationError):
    code = -111


class SessionExpired(CoordinationError):
    """The session ended, its ephemeral nodes are removed.  `reopen` begins another one."""

    code = -112


class InvalidAcl(CoordinationError):
    """The service cannot enforce this ACL."""

    code = -114


class AuthenticationFailed(CoordinationError):
    """The credentials of the session were refused (ZooKeeper: AuthFailed)."""

    code = -115


class QuotaExceeded(CoordinationError):
    """The tree is as large as clients may make it."""

    code = -125


class MultiFailed(CoordinationError):
    """No operation of a multi took effect.

    index    of the first operation that failed
    error    its error
    errors   for each operation: None before `index` (rolled back), `error`, then
             RuntimeInconsistency
    """

    def __init__(self, index: int, error: CoordinationError, count: int) -> None:
        super().__init__(f"operation {index}: {type(error).__name__} {error}")
        self.index = index
        self.error = error
        self.code = error.code
        after = [RuntimeInconsistency() for _ in range(count - index - 1)]
        self.errors: Sequence[CoordinationError | None] = [*([None] * index), error, *after]


PROCEDURE_ERRORS: Final = (CoordinationError, BrokerError)
"""What a procedure may fail with; anything else is a bug."""
