"""The registration of a broker in `/brokers/ids`, and the id of the cluster that it joins.

Source: KIP-380; Kafka's KafkaZkClient.registerBroker, CheckedEphemeral (KAFKA-7165).
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from odradek.controller.coordination.errors import (
    PROCEDURE_ERRORS,
    BadVersion,
    ConnectionLoss,
    CoordinationError,
    MultiFailed,
    NodeExists,
    NoNode,
)
from odradek.controller.coordination.session import CoordinationSession, Create, SetData, Stat
from odradek.controller.image.image import BrokerImage
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.broker_znode import decode_broker, encode_broker
from odradek.controller.znodes.fenced_writes import ensure_path, read_all
from odradek.runtime.pending import Pending, settled
from odradek.runtime.work import SerialQueue

ATTEMPTS_MAX: Final = 10


class RegistrationRefused(CoordinationError):
    """Another broker is registered with this id or address; this broker cannot start."""


async def ensure_roots(session: CoordinationSession) -> None:
    """Create the persistent nodes that every broker creates at its start."""
    roots = zk_data.PERSISTENT_ROOTS
    lookups = await settled([session.exists(path) for path in roots])
    for path, done in zip(roots, lookups, strict=True):
        if done.result() is None:
            await ensure_path(session, path)


def new_cluster_id(random: UUID) -> str:
    """22 characters of base64url, in Kafka's form."""
    return base64.urlsafe_b64encode(random.bytes).decode().rstrip("=")


async def find_cluster_id(session: CoordinationSession, proposal: str) -> str:
    """The id of the cluster; stores `proposal` as the id when the cluster has none.

    raises  CoordinationError; BadZnode
    """
    await ensure_path(session, "/cluster")
    try:
        await session.create(zk_data.CLUSTER_ID, zk_data.encode_cluster_id(proposal))
    except (NodeExists, ConnectionLoss):
        # After a lost response the node is this broker's, or another one's, or was not created.
        (znode,) = await read_all(session, [zk_data.CLUSTER_ID])
        if znode is None:
            return await find_cluster_id(session, proposal)
        try:
            return zk_data.decode_cluster_id(znode[0])
        except zk_data.BadZnode as error:
            raise zk_data.BadZnode(f"{zk_data.CLUSTER_ID}: {error}") from error
    return proposal


async def store_coordinator(session: CoordinationSession, node_id: int) -> None:
    """Store the id of the node that serves this tree as the quorum.

    raises  CoordinationError
    """
    await ensure_path(session, zk_data.COORDINATOR)
    await session.set(zk_data.COORDINATOR, zk_data.encode_number(node_id))


async def read_coordinator(session: CoordinationSession) -> int:
    """The id that `store_coordinator` has stored.

    raises  CoordinationError; BadZnode
    """
    data, _ = await session.get(zk_data.COORDINATOR)
    return zk_data.decode_number(data)


def next_broker_id(session: CoordinationSession) -> Pending[int]:
    """A number from 1 that the cluster has given to no other broker (KAFKA-1070).

    It is the version of a node that each caller writes once.
    fails  CoordinationError
    """

    async def run() -> int:
        await ensure_path(session, zk_data.BROKER_SEQUENCE)
        while True:
            # A number whose response was lost is given to no broker.
            with contextlib.suppress(ConnectionLoss):
                return (await session.set(zk_data.BROKER_SEQUENCE, b"")).version
            await session.exists(zk_data.BROKER_SEQUENCE)

    return SerialQueue(*PROCEDURE_ERRORS).submit(run)


async def register(
    session: CoordinationSession,
    broker: BrokerImage,
    *,
    now_ms: int,
    earlier_session_ids: Sequence[int] = (),
) -> int:
    """Register; the broker epoch, which is higher than that of every earlier registration.

    earlier_session_ids  of this process; a registration that one of them left is replaced
    raises               RegistrationRefused; other CoordinationErrors
    """
    await _check_addresses(session, broker)
    path = zk_data.broker_path(broker.broker_id)
    data = encode_broker(broker, now_ms)
    for _ in range(ATTEMPTS_MAX):
        try:
            results = await session.multi(
                [Create(path, None, ephemeral=True), SetData(path, data, 0)]
            )
        except MultiFailed as failed:
            if not isinstance(failed.error, NodeExists):
                raise
        else:
            stat = results[1]
            assert isinstance(stat, Stat), "SetData results in a stat"
            return stat.czxid
        registration_stat = await session.exists(path)
        if registration_stat is None:
            continue
        if registration_stat.ephemeral_owner == session.session_id:
            return registration_stat.czxid
        if registration_stat.ephemeral_owner not in earlier_session_ids:
            raise RegistrationRefused(f"broker id {broker.broker_id} is in use by another broker")
        try:
            await session.delete(path, registration_stat.version)
        except (NoNode, BadVersion):
            continue
    raise RegistrationRefused(f"the registration of broker {broker.broker_id} kept changing")


async def _check_addresses(session: CoordinationSession, broker: BrokerImage) -> None:
    names = await session.children(zk_data.BROKER_IDS)
    others = [other for other in zk_data.broker_ids(names) if other != broker.broker_id]
    own = [(end.host, end.port) for end in broker.endpoints if end.port]
    paths = [zk_data.broker_path(broker_id) for broker_id in others]
    for other, znode in zip(others, await read_all(session, paths), strict=True):
        if znode is None:
            continue
        try:
            endpoints = decode_broker(other, znode[1].czxid, znode[0]).endpoints
        except zk_data.BadZnode:
            continue
        taken = [(end.host, end.port) for end in endpoints if (end.host, end.port) in own]
        if taken:
            raise RegistrationRefused(
                f"{taken[0][0]}:{taken[0][1]} is in use by broker {other} already"
            )
