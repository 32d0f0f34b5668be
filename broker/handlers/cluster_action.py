"""Whether a request between brokers may come from the network at all.

Differs from Kafka: a broker whose coordination is embedded, and not served to others, is alone in
its cluster; what claims to come from a peer is refused there.  One forged controller epoch would
make such a broker ignore its own controller until its next start.
Source: Kafka's AuthHelper.authorizeClusterOperation.
"""

from __future__ import annotations

from odradek.broker.handlers.handler import Context
from odradek.protocol.errors import BrokerError, ErrorCode


def authorize_cluster_action(context: Context) -> None:
    """raises  BrokerError CLUSTER_AUTHORIZATION_FAILED"""
    if not context.services.has_peers:
        raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
