"""Controller election: the first broker to create `/controller` wins.

The winner creates the ephemeral node and raises `/controller_epoch` in one multi, so two brokers
never have the same epoch.  Losing is not an error; the watch fires when there is a new election.

Another program may write `/controller_epoch`.  The active controller can write nothing then, as
each of its writes checks the version of that node; so it gives `/controller` up, and there is an
election.  The next epoch is above every epoch that this broker has heard of, whatever the node
contains: brokers refuse the requests of an earlier one.
Differs from Kafka: its controller goes on and fails with each write.
Source: KIP-380; Kafka's KafkaZkClient.registerControllerAndIncrementControllerEpoch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.controller.coordination.errors import BadVersion, MultiFailed, NodeExists, NoNode
from odradek.controller.coordination.session import (
    Check,
    CoordinationSession,
    Create,
    Delete,
    SetData,
    Stat,
)
from odradek.controller.znodes import zk_data

ATTEMPTS_MAX: Final = 10
EPOCH_MAX: Final = 2**31 - 2
"""The greatest epoch that can be raised by one: requests have 32 bits for it."""


class Won(NamedTuple):
    epoch: int
    epoch_version: int
    """Data version of /controller_epoch; every write of the controller checks it."""


class Lost(NamedTuple):
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
    try:
        return zk_data.ControllerZnode.decode(data).broker_id
    except zk_data.BadZnode as error:
        raise zk_data.BadZnode(f"{zk_data.CONTROLLER}: {error}") from error


async def elect(
    session: CoordinationSession,
    broker_id: int,
    now_ms: int,
    *,
    known_epoch: int = zk_data.INITIAL_CONTROLLER_EPOCH,
    on_overwritten: Callable[[], None] = lambda: None,
) -> Won | Lost:
    """Take part in the election; sets the watch in any case.

    An election that this session won earlier counts, too: the response may have been lost.
    known_epoch     the greatest controller epoch that this broker has heard of
    on_overwritten  called before `/controller` is given up because another program has written the
                    epoch of this session's election
    raises          CoordinationError; BadZnode
    """
    for _ in range(ATTEMPTS_MAX):
        controller_id = await watch_controller(session)
        epoch, stat = await _read_epoch(session, known_epoch)
        if controller_id == broker_id:
            node = await session.exists(zk_data.CONTROLLER)
            if node is not None and node.ephemeral_owner == session.session_id:
                # One multi has written both nodes, so they have the same zxid.
                if node.czxid == stat.mzxid:
                    return Won(epoch, stat.version)
                on_overwritten()
                await _give_up(session, stat.version)
                continue
        if controller_id >= 0:
            return Lost(controller_id)
        content = zk_data.ControllerZnode(broker_id, now_ms).encode()
        epoch = max(epoch, known_epoch) + 1
        try:
            results = await session.multi(
                [
                    Create(zk_data.CONTROLLER, content, ephemeral=True),
                    SetData(zk_data.CONTROLLER_EPOCH, zk_data.encode_number(epoch), stat.version),
                ]
            )
        except MultiFailed as failed:
            if not isinstance(failed.error, NodeExists | BadVersion | NoNode):
                raise
            continue
        written = results[1]
        assert isinstance(written, Stat), "SetData results in a stat"
        return Won(epoch, written.version)
    return Lost(-1)


async def _give_up(session: CoordinationSession, epoch_version: int) -> None:
    """Remove the own `/controller`, unless an election was held since the epoch was read."""
    try:
        await session.multi(
            [Check(zk_data.CONTROLLER_EPOCH, epoch_version), Delete(zk_data.CONTROLLER)]
        )
    except MultiFailed as failed:
        if not isinstance(failed.error, BadVersion | NoNode):
            raise


async def _read_epoch(session: CoordinationSession, known_epoch: int) -> tuple[int, Stat]:
    """The epoch, and the stat of its node; `known_epoch` for a content that is not an epoch.

    raises  BadZnode for such a content, when no epoch is known
    """
    try:
        data, stat = await session.get(zk_data.CONTROLLER_EPOCH)
    except NoNode:
        initial = zk_data.encode_number(zk_data.INITIAL_CONTROLLER_EPOCH)
        with contextlib.suppress(NodeExists):
            await session.create(zk_data.CONTROLLER_EPOCH, initial)
        data, stat = await session.get(zk_data.CONTROLLER_EPOCH)
    try:
        epoch = zk_data.decode_number(data)
        if not 0 <= epoch <= EPOCH_MAX:
            raise zk_data.BadZnode(f"not a controller epoch: {epoch}")
    except zk_data.BadZnode as error:
        if known_epoch == zk_data.INITIAL_CONTROLLER_EPOCH:
            raise zk_data.BadZnode(f"{zk_data.CONTROLLER_EPOCH}: {error}") from error
        epoch = known_epoch
    return epoch, stat
