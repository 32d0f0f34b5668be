"""The least that a Python server needs to serve a consumer, over a log that this project's broker
has written: what the consume rows are compared with.

It is the whole broker until a row's data are written, and `floor_server` on the same directory
afterwards.
"""

from __future__ import annotations

import platform
import sys

from bench.places import PROJECT
from bench.targets.odradek import Odradek


class Floor(Odradek):
    """Two processes, one after the other, in each round."""

    key = "floor"
    label = "a minimal server"
    restart_each_round = True

    def version(self) -> str:
        return f"CPython {platform.python_version()}"

    def command(self) -> list[str]:
        if not self.is_filled:
            return super().command()
        server = str(PROJECT / "bench" / "targets" / "floor_server.py")
        return [sys.executable, "-P", server, str(self.port), str(self.data)]

    def filled(self) -> None:
        self.stop()
        self.is_filled = True
        self.start()

    def delete_topic(self, name: str) -> None:
        """Nothing: the directory is wiped with the round."""
