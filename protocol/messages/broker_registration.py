"""BrokerRegistration (key 62): announces a broker to the KRaft controller.

    1   brokers that migrate from ZooKeeper (KIP-866)
    2   directory ids (KIP-858)
    3   epoch before a restart (KIP-966)
    4   features whose lowest version is 0 may be listed (KAFKA-17492)

Introduced by KIP-631.

Source: kafka.apache.org/protocol, BrokerRegistration.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    ArrayOf,
    field,
    message,
    nested,
)


@nested
class Listener:
    name: str = field(STRING, "0+")
    host: str = field(STRING, "0+")
    port: int = field(UINT16, "0+")
    security_protocol: int = field(INT16, "0+")


@nested
class Feature:
    name: str = field(STRING, "0+")
    min_supported_version: int = field(INT16, "0+")
    max_supported_version: int = field(INT16, "0+")


@message(api_key=62, versions="0-4", flexible="0+")
class BrokerRegistrationRequest:
    broker_id: int = field(INT32, "0+")
    cluster_id: str = field(STRING, "0+")
    incarnation_id: Uuid = field(UUID, "0+")
    listeners: list[Listener] = field(ArrayOf(Listener), "0+")
    features: list[Feature] = field(ArrayOf(Feature), "0+")
    rack: str | None = field(STRING, "0+", nullable="0+")
    is_migrating_zk_broker: bool = field(BOOL, "1+", default=False)
    log_dirs: list[Uuid] = field(ArrayOf(UUID), "2+", default=[])
    previous_broker_epoch: int = field(INT64, "3+", default=-1)


@message(api_key=62, versions="0-4", flexible="0+")
class BrokerRegistrationResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    broker_epoch: int = field(INT64, "0+", default=-1)
    """Rises with each registration of the broker; -1 if unknown (KIP-380)."""
