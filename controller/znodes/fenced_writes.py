"""Writes that only the active controller can make, and reads of many znodes at once.

Each write is a multi that checks the version which `/controller_epoch` had when this controller was
elected.  Once another broker is elected all writes of the old controller fail with ControllerMoved,
however late it learns of the election (KAFKA-6082).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

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
    CoordinationSession,
    Create,
    Delete,
    SetData,
    Stat,
    ZkOperation,
    ZkResult,
)
from odradek.controller.znodes import zk_data
from odradek.runtime.pending import Pending, settled
from odradek.runtime.work import pause, shares


class ControllerMoved(CoordinationError):
    """Another broker was elected; the image of this controller is out of date."""


SHARED_GROUPS_MAX: Final = 64
SHARED_BYTES_MAX: Final = 128 * 1024
"""Paths and data of a multi that groups share; a server of ZooKeeper takes 1 MiB."""


class FencedWrites:
    """Writes of one controller epoch."""

    __slots__ = ("_check", "session")

    def __init__(self, session: CoordinationSession, epoch_version: int) -> None:
        """epoch_version  the data version of /controller_epoch that the election wrote"""
        self.session = session
        self._check = Check(zk_data.CONTROLLER_EPOCH, epoch_version)

    async def write(self, *operations: ZkOperation) -> list[ZkResult]:
        """All or nothing.

        raises  ControllerMoved; else the first operation's error
        """
        result = (await self.write_all([operations]))[0]
        if isinstance(result, CoordinationError):
            raise result
        return result

    async def write_all(
        self, groups: Sequence[Sequence[ZkOperation]]
    ) -> list[list[ZkResult] | CoordinationError]:
        """Each group all or nothing; all are sent before the first result is awaited.

        Many groups share a multi, since its price is that of one write.  When it is refused, each
        of its groups is sent by itself.
        returns  for each group its results, or its error
        raises   ControllerMoved; SessionExpired, ConnectionLoss or StorageFailed of any group
        """
        results: dict[int, list[ZkResult] | CoordinationError] = {}
        alone: list[int] = []
        for multi, done in await self._send(groups, _multis(groups)):
            if isinstance(done, CoordinationError):
                alone += multi
                continue
            start = 0
            for index in multi:
                end = start + len(groups[index])
                results[index] = done[start:end]
                start = end
        for (index,), done in await self._send(groups, ([index] for index in alone)):
            results[index] = done
        return [results[index] for index in range(len(groups))]

    async def _send(
        self, groups: Sequence[Sequence[ZkOperation]], multis: Iterable[list[int]]
    ) -> list[tuple[list[int], list[ZkResult] | CoordinationError]]:
        """Send each multi, which consists of the groups with these indexes.

        Other sessions may write between two of them; each is fenced, and checks its own versions.
        """
        sent: list[list[int]] = []
        pendings: list[Pending[list[ZkResult]]] = []
        for multi in multis:
            await pause(len(multi))
            sent.append(multi)
            operations = [operation for index in multi for operation in groups[index]]
            pendings.append(self.session.multi((self._check, *operations)))
        results: list[tuple[list[int], list[ZkResult] | CoordinationError]] = []
        for multi, pending in zip(sent, await settled(pendings), strict=True):
            try:
                results.append((multi, pending.result()[1:]))
            except MultiFailed as failed:
                if failed.index == 0 and isinstance(failed.error, BadVersion | NoNode):
                    raise ControllerMoved(str(failed)) from failed
                if isinstance(failed.error, SessionExpired | ConnectionLoss | StorageFailed):
                    raise failed.error from failed
                results.append((multi, failed.error))
        return results

    async def remove(self, *paths: str) -> None:
        """Remove nodes without children; a missing one is not an error.

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


def _multis(groups: Sequence[Sequence[ZkOperation]]) -> Iterator[list[int]]:
    """The groups that go into each multi."""
    share: list[int] = []
    share_bytes = 0
    for index, group in enumerate(groups):
        group_bytes = sum(map(_bytes, group))
        is_full = len(share) == SHARED_GROUPS_MAX or share_bytes + group_bytes > SHARED_BYTES_MAX
        if share and is_full:
            yield share
            share, share_bytes = [], 0
        share.append(index)
        share_bytes += group_bytes
    if share:
        yield share


def _bytes(operation: ZkOperation) -> int:
    data = operation.data if isinstance(operation, Create | SetData) else None
    return len(operation.path) + len(data or b"")


async def read_all(
    session: CoordinationSession, paths: Sequence[str], *, watch: bool = False
) -> list[tuple[bytes | None, Stat] | None]:
    """Data and stat of each, None for one that does not exist; all are requested at once.

    raises  CoordinationError other than NoNode
    """
    znodes: list[tuple[bytes | None, Stat] | None] = []
    pendings: list[Pending[tuple[bytes | None, Stat]]] = []
    for share in shares(paths):
        await pause(len(share))
        pendings += [session.get(path, watch=watch) for path in share]
    for pending in await settled(pendings):
        try:
            znodes.append(pending.result())
        except NoNode:
            znodes.append(None)
    return znodes


async def ensure_path(session: CoordinationSession, path: str) -> None:
    """Create a persistent node without data, and its parents, unless they exist.

    raises  CoordinationError
    """
    if await session.exists(path) is not None:
        return
    position = path.find("/", 1)
    while position > 0:
        await _create_if_absent(session, path[:position])
        position = path.find("/", position + 1)
    await _create_if_absent(session, path)


async def _create_if_absent(session: CoordinationSession, path: str) -> None:
    pending = session.create(path, None)
    (done,) = await settled([pending])
    try:
        done.result()
    except CoordinationError:
        if await session.exists(path) is None:
            raise
