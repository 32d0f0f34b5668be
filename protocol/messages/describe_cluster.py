"""DescribeCluster (key 60): shows cluster id, controller and brokers.

    1   brokers or controllers may be asked for (KIP-919)
    2   fenced brokers (KIP-1073)

Introduced by KIP-700.

Source: kafka.apache.org/protocol, DescribeCluster.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = field("bool", "0+")
    endpoint_type: int = field("int8", "1+", default=1)
    """1 brokers, 2 controllers."""
    include_fenced_brokers: bool = field("bool", "2+", default=False)


@nested
class DescribeClusterBroker:
    broker_id: int = field("int32", "0+")
    host: str = field("string", "0+")
    port: int = field("int32", "0+")
    rack: str | None = field("string", "0+", nullable="0+", default=None)
    is_fenced: bool = field("bool", "2+", default=False)


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    endpoint_type: int = field("int8", "1+", default=1)
    cluster_id: str = field("string", "0+")
    controller_id: int = field("int32", "0+", default=-1)
    """-1 if there is none."""
    brokers: list[DescribeClusterBroker] = field([DescribeClusterBroker], "0+")
    cluster_authorized_operations: int = field("int32", "0+", default=-2147483648)
    """Bit set of 1 << AclOperation; -2147483648 when it was not asked for."""
