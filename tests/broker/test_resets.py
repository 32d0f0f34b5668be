"""Connections that are reset: the broker gives their descriptors back."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from odradek.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.broker_process import odradek_broker
from tests.support.compacted import wait_until
from tests.support.processes import pause_process
from tests.support.wire import Wire

COUNT = 50


@pytest.mark.parametrize(
    "sent", [b"", b"\0\0", b"\0\0\0\x14\0\x12\0\x03", b"\0\0\1\0" + b"x" * 255]
)
def test_reset_that_comes_with_a_part_of_a_request_is_noticed(tmp_path: Path, sent: bytes) -> None:
    with odradek_broker(tmp_path) as broker:
        before = broker.process.open_files()
        wires = [Wire(broker.address) for _ in range(COUNT)]
        for wire in wires:
            wire.send(ApiVersionsRequest(), 0)
            wire.await_arrival()
        # What is unread when a socket is closed makes its end a reset; both come in one turn.
        pid = broker.process.pid
        pause_process(pid)
        for wire in wires:
            wire.send_bytes(sent)
            wire.close()
        os.kill(pid, signal.SIGCONT)
        wait_until("their end", lambda: broker.process.open_files() <= before, timeout_s=60)
        with Wire(broker.address) as wire:
            assert wire.call(ApiVersionsRequest(), 0).error_code == 0
