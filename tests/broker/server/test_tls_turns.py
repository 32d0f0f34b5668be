"""Turns of TLS connections beside those of others."""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path

from odradek.protocol.messages.api_versions import ApiVersionsRequest
from tests.security.test_tls_transport import KeyChanger
from tests.support.certificates import Authority
from tests.support.node_here import node_here

CHANGES = 2_500
CONTENT = b"\0\0\0"
FRAME_BYTES = 1 << 20


def test_others_have_their_turns_while_a_client_mixes_changes_of_keys_with_content(
    tmp_path: Path,
) -> None:
    names = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.location": str(Authority(tmp_path).server().pem),
        "ssl.keystore.type": "PEM",
    }
    with (
        node_here(tmp_path, **names) as here,
        socket.create_connection(("127.0.0.1", here.node.listeners[1].port)) as connected,
    ):
        connected.setblocking(False)
        changer = KeyChanger(connected)
        here.until(changer.handshake, "the handshake does not end")
        assert changer.write(struct.pack(">i", FRAME_BYTES) + bytes(1_000))
        memory = here.server.frame_memory
        here.until(lambda: memory.held_bytes, "no large frame has begun")
        begun = memory.held_bytes
        for _ in range(CHANGES):
            assert changer.write(CONTENT)
            assert changer.change_keys()
        other = here.caller()
        responses = 0
        while memory.held_bytes < begun + CHANGES * len(CONTENT):
            here.call(other, ApiVersionsRequest(), 0)
            responses += 1
            with contextlib.suppress(BlockingIOError):
                connected.recv(1 << 16)
        # 128 KiB in turns of 4 KiB, after the first ones.
        assert responses > 10
