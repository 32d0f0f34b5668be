"""Reading many znodes at once, and writes that only the elected controller can make.

Each write is a multi with a check of `/controller_epoch`'s version as it was when this controller
won: once another has won, all of them fail with ControllerMoved, however late the old one learns
of it (KAFKA-6082).
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.controller.coordination.errors import (
    BadVersion,
    ConnectionLoss,
    CoordinationError,
    MultiFailed,
    NoNode,
    SessionExpired,
    StorageFailed,
)
from odradek.controller.coordination.session import (
    Check,
    Delete,
    Operation,
    OperationResult,
    Session,
    Stat,
)
from odradek.controller.znodes import zk_data
from odradek.runtime.pending import settled


class ControllerMoved(CoordinationError):
    """Another broker was elected since; what this one knows is void."""


class FencedWrites:
    """Writes of one term of office."""

    __slots__ = ("_check", "session")

    def __init__(self, session: Session, epoch_version: int) -> None:
        """epoch_version  data version of /controller_epoch that the election wrote"""
        self.session = session
        self._check = Check(zk_data.CONTROLLER_EPOCH, epoch_version)

    async def write(self, *operations: Operation) -> list[OperationResult]:
        """All or nothing.

        raises  ControllerMoved; else the first operation's error
        """
        result = (await self.write_all([operations]))[0]
        if isinstance(result, CoordinationError):
            raise result
        return result

    async def write_all(
        self, groups: Sequence[Sequence[Operation]]
    ) -> list[list[OperationResult] | CoordinationError]:
        """Each group all or nothing, all sent before the first answer is waited for.

        returns  per group its results, or why it was refused
        raises   ControllerMoved; what keeps any write from succeeding (expiry, connection, disk)
        """
        pendings = [self.session.multi((self._check, *group)) for group in groups]
        results: list[list[OperationResult] | CoordinationError] = []
        for pending in await settled(pendings):
            try:
                results.append(pending.result()[1:])
            except MultiFailed as failed:
                if failed.index == 0 and isinstance(failed.error, BadVersion | NoNode):
                    raise ControllerMoved(str(failed)) from failed
                if isinstance(failed.error, SessionExpired | ConnectionLoss | StorageFailed):
                    raise failed.error from failed
                results.append(failed.error)
        return results

    async def remove(self, *paths: str) -> None:
        """Remove nodes without children; those that are gone already are no error.

        raises  ControllerMoved; NotEmpty and the like
        """
        for result in await self.write_all([(Delete(path),) for path in paths]):
            if isinstance(result, CoordinationError) and not isinstance(result, NoNode):
                raise result

    async def remove_tree(self, path: str) -> None:
        """Remove a node and all below it, children first."""
        try:
            names = await self.session.children(path)
        except NoNode:
            return
        for name in names:
            await self.remove_tree(f"{path}/{name}")
        await self.remove(path)


async def read_all(
    session: Session, paths: Sequence[str], *, watch: bool = False
) -> list[tuple[bytes | None, Stat] | None]:
    """Data and stat of each, None for one that is not there; all are asked before any answers.

    raises  CoordinationError other than NoNode
    """
    found: list[tuple[bytes | None, Stat] | None] = []
    for pending in await settled([session.get(path, watch=watch) for path in paths]):
        try:
            found.append(pending.result())
        except NoNode:
            found.append(None)
    return found


async def ensure_path(session: Session, path: str) -> None:
    """Make a persistent node without data, and its parents, unless they are there.

    raises  CoordinationError
    """
    if await session.exists(path) is not None:
        return
    position = path.find("/", 1)
    while position > 0:
        await _create_unless_there(session, path[:position])
        position = path.find("/", position + 1)
    await _create_unless_there(session, path)


async def _create_unless_there(session: Session, path: str) -> None:
    pending = session.create(path, None)
    (done,) = await settled([pending])
    try:
        done.result()
    except CoordinationError:
        if await session.exists(path) is None:
            raise
