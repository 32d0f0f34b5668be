"""The commands of four letters that a client sends instead of a session: minimal.

Source: ZooKeeper's administrator's guide, org.apache.zookeeper.server.command.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WORDS: Final = (b"ruok", b"srvr", b"stat", b"conf")


@dataclass(slots=True)
class ServerStatistics:
    """The numbers that the commands report."""

    received: int = 0
    sent: int = 0
    connections: int = 0
    outstanding: int = 0


def respond(
    word: bytes, statistics: ServerStatistics, *, zxid: int, node_count: int, limits: dict[str, int]
) -> bytes:
    """The text for one of `WORDS`."""
    if word == b"ruok":
        return b"imok"
    if word == b"conf":
        return "".join(f"{name}={value}\n" for name, value in limits.items()).encode()
    lines = ["Zookeeper version: 3.8 (the embedded tree of odradek)"]
    if word == b"stat":
        lines += ["Clients:", ""]
    lines += [
        "Latency min/avg/max: 0/0.0/0",
        f"Received: {statistics.received}",
        f"Sent: {statistics.sent}",
        f"Connections: {statistics.connections}",
        f"Outstanding: {statistics.outstanding}",
        f"Zxid: 0x{zxid:x}",
        "Mode: standalone",
        f"Node count: {node_count}",
    ]
    return "\n".join(lines).encode() + b"\n"
