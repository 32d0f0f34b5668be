"""The broker of this project, started as its users start it."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from pathlib import Path

from bench.places import PROJECT
from bench.targets.target import Target

SETTINGS = """\
broker.id=0
log.segment.delete.delay.ms=1000
log.cleaner.backoff.ms=200
group.initial.rebalance.delay.ms=0
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


class Odradek(Target):
    """One node with its embedded coordination."""

    key = "odradek"
    label = "Odradek"

    def version(self) -> str:
        return f"{metadata.version('odradek')}, CPython {platform.python_version()}"

    @property
    def settings(self) -> Path:
        """The properties file."""
        return self.directory / "server.properties"

    def prepare(self) -> None:
        self.settings.write_text(SETTINGS)

    def command(self) -> list[str]:
        return [
            sys.executable,
            "-I",
            "-m",
            "odradek",
            "start",
            str(self.settings),
            "--override",
            f"listeners=PLAINTEXT://{self.bootstrap}",
            "--override",
            f"log.dirs={self.data}",
        ]

    @staticmethod
    def exists() -> bool:
        """Whether there is a broker to be started."""
        return (PROJECT / "odradek" / "__main__.py").exists()
