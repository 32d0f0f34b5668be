"""`odradek container-health`: whether the broker of this container serves clients.

Exit codes: 0 it does; 1 it does not (one line gives the reason).
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from typing import Final

from odradek.bounded_files import system_error_text
from odradek.broker.settings.listeners import Listener
from odradek.broker.settings.load import load_settings
from odradek.broker.settings.types import SettingsError
from odradek.container.config_command import add_default
from odradek.container.sources import read_config
from odradek.container.zookeeper_config import zookeeper_properties
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.tools.client import Client, ClientError

TIMEOUT_MS: Final = 8_000
"""Less than the image gives to the check."""
EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")
LOCAL: Final = "127.0.0.1"


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek container-health",
        description="Check that the broker of this container serves clients on its first listener.",
    )
    add_default(parser)
    return parser


def main(arguments: Sequence[str]) -> int:
    options = build_parser().parse_args(list(arguments))
    try:
        zookeeper = zookeeper_properties(os.environ)
        if zookeeper is not None:
            _connect(LOCAL, int(zookeeper["clientPort"]))
            return 0
        config = read_config(os.environ, options.default)
        written = [f"{name}={text}" for name, text in config.settings.items()]
        settings = load_settings(os.devnull, written)
        quorum = settings.quorum
        hidden = () if quorum is None else quorum.controller_listeners
        # A controller alone has none: it is healthy while it runs.
        clients = [listener for listener in settings.listeners if listener.name not in hidden]
        for listener in clients[:1]:
            _check(listener)
    except (SettingsError, ClientError, OSError) as error:
        text = system_error_text(error) if isinstance(error, OSError) else str(error)
        print(f"odradek: {text}", file=sys.stderr)
        return 1
    return 0


def _connect(host: str, port: int) -> None:
    """raises  OSError"""
    socket.create_connection((host, port), TIMEOUT_MS / 1000).close()


def _check(listener: Listener) -> None:
    """Send a request; where clients have to authenticate, only connect.

    raises  ClientError, OSError
    """
    address = listener if listener.host not in EVERY_INTERFACE else listener._replace(host=LOCAL)
    if listener.protocol != "PLAINTEXT":
        _connect(address.host, address.port)
        return
    with Client(address.address, timeout_ms=TIMEOUT_MS) as client:
        client.any_broker(MetadataRequest(topics=[]), MetadataResponse)
