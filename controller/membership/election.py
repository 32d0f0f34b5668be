"""Controller election: the first broker to create `/controller` wins.

The winner creates the ephemeral node and raises `/controller_epoch` in one multi, so two brokers
never have the same epoch.  Losing is no error; the watch fires when there is a new election.
Source: KIP-380; Kafka's KafkaZkClient.registerControllerAndIncrementControllerEpoch.
"""

from __future__ import annotations

import contextlib
from typing import Final

from odradek.controller.coordination.errors import BadVersion, MultiFailed, NodeExists, NoNode
from odradek.controller.coordination.session import CoordinationSession, Create, SetData, Stat
from odradek.controller.znodes import zk_data
from odradek.runtime.lazy_dataclass import dataclass

ATTEMPTS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Won:
    epoch: int
    epoch_version: int
    """Data version of /controller_epoch; every write of the controller checks it."""


@dataclass(frozen=True, slots=True)
class Lost:
    controller_id: int
    """-1 when there is no controller at present; the watch fires when there is one."""


async def watch_controller(session: CoordinationSession) -> int:
    """The id of the controller, or -1; sets a watch that fires at the next change.

    raises  CoordinationError; BadZnode
    """
    await session.exists(zk_data.CONTROLLER, watch=True)
    try:
        data, _ = await session.get(zk_data.CONTROLLER)
    except NoNode:
        return -1
    return zk_data.ControllerZnode.decode(data).broker_id


async def elect(session: CoordinationSession, broker_id: int, now_ms: int) -> Won | Lost:
    """Take part in the election; sets the watch in any case.

    An election that this session won earlier counts, too: the response may have been lost.
    raises  CoordinationError; BadZnode
    """
    for _ in range(ATTEMPTS_MAX):
        controller_id = await watch_controller(session)
        if controller_id == broker_id:
            won = await _find_earlier_win(session)
            if won is not None:
                return won
        if controller_id >= 0:
            return Lost(controller_id)
        epoch, stat = await _read_epoch(session)
        node = zk_data.ControllerZnode(broker_id, now_ms).encode()
        try:
            results = await session.multi(
                [
                    Create(zk_data.CONTROLLER, node, ephemeral=True),
                    SetData(
                        zk_data.CONTROLLER_EPOCH, zk_data.encode_number(epoch + 1), stat.version
                    ),
                ]
            )
        except MultiFailed as failed:
            if not isinstance(failed.error, NodeExists | BadVersion):
                raise
            continue
        written = results[1]
        assert isinstance(written, Stat), "SetData results in a stat"
        return Won(epoch + 1, written.version)
    return Lost(-1)


async def _find_earlier_win(session: CoordinationSession) -> Won | None:
    """The election that this session won, if `/controller` is its own node.

    One multi writes both nodes, so they have the same zxid.  If they do not, the epoch is that of
    a later election, which this session did not win.
    """
    epoch, stat = await _read_epoch(session)
    found = await session.exists(zk_data.CONTROLLER)
    if found is None or found.ephemeral_owner != session.session_id:
        return None
    return Won(epoch, stat.version) if found.czxid == stat.mzxid else None


async def _read_epoch(session: CoordinationSession) -> tuple[int, Stat]:
    try:
        data, stat = await session.get(zk_data.CONTROLLER_EPOCH)
    except NoNode:
        initial = zk_data.encode_number(zk_data.INITIAL_CONTROLLER_EPOCH)
        with contextlib.suppress(NodeExists):
            await session.create(zk_data.CONTROLLER_EPOCH, initial)
        data, stat = await session.get(zk_data.CONTROLLER_EPOCH)
    return zk_data.decode_number(data), stat
