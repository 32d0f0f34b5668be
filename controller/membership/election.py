"""Who is the controller: the race for `/controller`.

The winner makes the ephemeral node and raises `/controller_epoch` in one multi, so an epoch is
never held by two.  Losing is no error; the watch that is set tells when there is a new race.
Source: KIP-380; Kafka's KafkaZkClient.registerControllerAndIncrementControllerEpoch.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Final

from odradek.controller.coordination.errors import BadVersion, MultiFailed, NodeExists, NoNode
from odradek.controller.coordination.session import Create, Session, SetData, Stat
from odradek.controller.znodes import zk_data

ATTEMPTS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Won:
    """This broker is the controller."""

    epoch: int
    epoch_version: int
    """Data version of /controller_epoch; what every write of the controller is checked against."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Another broker is."""

    controller_id: int
    """-1 when nobody is just now; the watch will tell."""


async def watch_controller(session: Session) -> int:
    """The controller's id, or -1; a change of it will be told once.

    raises  CoordinationError; BadZnode
    """
    await session.exists(zk_data.CONTROLLER, watch=True)
    try:
        data, _ = await session.get(zk_data.CONTROLLER)
    except NoNode:
        return -1
    return zk_data.ControllerZnode.decode(data).broker_id


async def elect(session: Session, broker_id: int, now_ms: int) -> Won | Lost:
    """Take part; sets the watch in any case.

    An election that this session has won without hearing of it (the answer was lost) counts.
    raises  CoordinationError; BadZnode
    """
    for _ in range(ATTEMPTS_MAX):
        holder = await watch_controller(session)
        if holder == broker_id:
            won = await _find_unheard_victory(session)
            if won is not None:
                return won
        if holder >= 0:
            return Lost(holder)
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
        assert isinstance(written, Stat), "setting data gives a stat"
        return Won(epoch + 1, written.version)
    return Lost(-1)


async def _find_unheard_victory(session: Session) -> Won | None:
    """Whether this session holds the office, and since which epoch.

    Both nodes are written by one multi, so they bear the same zxid: if they do not, the epoch is
    that of somebody else's election and must not be taken for ours.
    """
    epoch, stat = await _read_epoch(session)
    found = await session.exists(zk_data.CONTROLLER)
    if found is None or found.ephemeral_owner != session.session_id:
        return None
    return Won(epoch, stat.version) if found.czxid == stat.mzxid else None


async def _read_epoch(session: Session) -> tuple[int, Stat]:
    try:
        data, stat = await session.get(zk_data.CONTROLLER_EPOCH)
    except NoNode:
        initial = zk_data.encode_number(zk_data.INITIAL_CONTROLLER_EPOCH)
        with contextlib.suppress(NodeExists):
            await session.create(zk_data.CONTROLLER_EPOCH, initial)
        data, stat = await session.get(zk_data.CONTROLLER_EPOCH)
    return zk_data.decode_number(data), stat
