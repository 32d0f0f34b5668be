"""/brokers/ids/N: the registration of a broker.

Written as version 5 (KIP-584).  Read: 1 to 5; before 4 a listener's name is its security protocol,
before 2 there is only host and port.
Source: Kafka's BrokerIdZNode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from odradek.controller.image.image import BrokerImage, Endpoint
from odradek.controller.znodes.zk_data import BadZnode, decode_json, encode_json, field, shown

_ENDPOINT: Final = re.compile(
    r"([^:/]+)://(?:\[([0-9a-zA-Z\-%._:]*)\]|([0-9a-zA-Z\-%._]*)):([0-9]+)"
)
PORT_DIGITS_MAX: Final = 9


def encode_broker(broker: BrokerImage, timestamp_ms: int) -> bytes:
    """Version 5; `host` and `port` are those of the first PLAINTEXT endpoint, for readers of
    version 1."""
    value: dict[str, Any] = {
        "features": {
            name: {"min_version": lowest, "max_version": highest}
            for name, lowest, highest in broker.features
        },
        "listener_security_protocol_map": {
            endpoint.listener_name: endpoint.security_protocol for endpoint in broker.endpoints
        },
        "endpoints": [_connection_string(endpoint) for endpoint in broker.endpoints],
    }
    if broker.rack is not None:
        value["rack"] = broker.rack
    plaintext = [end for end in broker.endpoints if end.security_protocol == "PLAINTEXT"]
    value["jmx_port"] = -1
    value["port"] = plaintext[0].port if plaintext else -1
    value["host"] = plaintext[0].host if plaintext else None
    value["version"] = 5
    value["timestamp"] = str(timestamp_ms)
    return encode_json(value)


def decode_broker(broker_id: int, broker_epoch: int, data: bytes | None) -> BrokerImage:
    """Versions 1 to 5.

    raises  BadZnode
    """
    value = decode_json(data)
    version = field(value, "version", int)
    if version < 1:
        raise BadZnode(f"version is {version}")
    if version == 1:
        host = field(value, "host", str)
        endpoints = [Endpoint("PLAINTEXT", host, field(value, "port", int), "PLAINTEXT")]
    else:
        name = "listener_security_protocol_map"
        protocols = field(value, name, dict) if name in value else {}
        endpoints = [_endpoint(text, protocols) for text in field(value, "endpoints", list)]
    features = field(value, "features", dict) if "features" in value else {}
    rack = value.get("rack")
    return BrokerImage(
        broker_id,
        broker_epoch,
        tuple(endpoints),
        rack if isinstance(rack, str) else None,
        tuple(
            (
                name,
                field(features[name], "min_version", int),
                field(features[name], "max_version", int),
            )
            for name in features
        ),
    )


def _connection_string(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener_name}://{host}:{endpoint.port}"


def _endpoint(text: object, protocols: Mapping[str, str]) -> Endpoint:
    match = _ENDPOINT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise BadZnode(f"not an endpoint: {shown(text)}")
    name, bracketed, plain, port = match.groups()
    protocol = protocols.get(name, name)
    if len(port) > PORT_DIGITS_MAX or not isinstance(protocol, str):
        raise BadZnode(f"not an endpoint: {shown(text)}")
    return Endpoint(name, bracketed or plain or "", int(port), protocol)
