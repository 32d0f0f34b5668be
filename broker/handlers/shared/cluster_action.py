"""Requests between brokers: whether they may come from the network, and how the controller's apply.

Differs from Kafka: a broker without an authorizer whose coordination is embedded, and not served to
others, is alone in its cluster; what claims to come from a peer is refused there.  One forged
controller epoch would make such a broker ignore its own controller until its next start.
Source: Kafka's AuthHelper.authorizeClusterOperation.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Close, Context
from odradek.broker.security.acl.permission import CLUSTER_ACTION
from odradek.controller.image.control_requests import ControlRequest, ControlResponse
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.pending import Pending


def authorize_cluster_action(context: Context) -> None:
    """raises  BrokerError CLUSTER_AUTHORIZATION_FAILED"""
    services = context.services
    if services.authorizer is not None:
        require(context, CLUSTER_ACTION)
    elif not services.has_peers:
        raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


async def apply_control_request(
    context: Context, request: ControlRequest
) -> ControlResponse | Close:
    """Through the receiver, as the requests of this broker's own controller.

    A connection that the controller has given up is closed, with its request.
    """
    applied: Pending[ControlResponse] = Pending()
    receiver = context.services.controller.receiver
    if not receiver.receive_from(context.connection_number, request, applied.resolve):
        return Close("its controller has a later connection")
    return await applied
