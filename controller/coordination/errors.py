"""What a coordination session may refuse with; codes are ZooKeeper's (KeeperException.Code)."""

from __future__ import annotations

from collections.abc import Sequence


class CoordinationError(Exception):
    """The session could not do what was asked."""

    code = -1


class StorageFailed(CoordinationError):
    """The embedded tree's disk refused (SystemError).

    The write did not happen; after a failed sync, which ends the use of the tree, it may have.
    """

    code = -1


class RuntimeInconsistency(CoordinationError):
    """This operation of a multi was not tried, because an earlier one failed."""

    code = -2


class ConnectionLoss(CoordinationError):
    """No answer came; a write may or may not have happened."""

    code = -4


class BadArguments(CoordinationError):
    """A malformed path, or data above the limit."""

    code = -8


class NoNode(CoordinationError):
    """The node, or its parent, is not there."""

    code = -101


class BadVersion(CoordinationError):
    """The node's data version is not the expected one."""

    code = -103


class NoChildrenForEphemerals(CoordinationError):
    """An ephemeral node cannot have children."""

    code = -108


class NodeExists(CoordinationError):
    """The node is there already."""

    code = -110


class NotEmpty(CoordinationError):
    """The node has children."""

    code = -111


class SessionExpired(CoordinationError):
    """The session ended; its ephemeral nodes are gone.  `reopen` starts another one."""

    code = -112


class MultiFailed(CoordinationError):
    """No operation of a multi took effect.

    index    the first operation that failed
    error    why
    errors   per operation: None for those before it (rolled back), the error, then
             RuntimeInconsistency for those after it
    """

    def __init__(self, index: int, error: CoordinationError, count: int) -> None:
        super().__init__(f"operation {index}: {type(error).__name__} {error}")
        self.index = index
        self.error = error
        self.code = error.code
        after = [RuntimeInconsistency() for _ in range(count - index - 1)]
        self.errors: Sequence[CoordinationError | None] = [*([None] * index), error, *after]
