"""Holds many idle connections: python connections.py HOST PORT COUNT, until its input ends.

A program of its own without imports of the project, because the descriptors of one process are not
enough.  Each connection asks for the API versions once, so that the broker has set it up in full.
"""

from __future__ import annotations

import socket
import struct
import sys


def _open(host: str, port: int) -> socket.socket:
    connection = socket.create_connection((host, port), 30)
    # a header of version 1 without client id: key 18, version 0, correlation id 1
    connection.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
    (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    connection.recv(length, socket.MSG_WAITALL)
    return connection


def main() -> None:
    """Opens, tells, waits."""
    host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    held = [_open(host, port) for _ in range(count)]
    print("open", flush=True)
    sys.stdin.read()
    del held


if __name__ == "__main__":
    main()
