"""A server of S3's protocol: moto from PyPI, in a virtual environment of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

from tests.support import tool_cache
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess

REQUIREMENT: Final = "moto[server,s3]>=5,<6"
READY_TIMEOUT_S: Final = 60.0


def python() -> Path:
    """The interpreter of its environment."""

    def make(folder: Path) -> None:
        tool_cache.run_tool([sys.executable, "-m", "venv", str(folder / "venv")], folder=folder)
        install = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        tool_cache.run_tool([*install, REQUIREMENT], folder=folder)

    target = tool_cache.TOOLS / "moto"
    mark = tool_cache.fingerprint([REQUIREMENT, sys.version])
    return tool_cache.build_once(target, mark, make) / "venv" / "bin" / "python"


@contextmanager
def s3_server(folder: Path, bucket: str) -> Iterator[str]:
    """Start a server with a bucket; yields its address.

    folder  for its log
    """
    port = free_port()
    command = [str(python()), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with LoggedProcess(command, log=folder / "moto.log", folder=folder) as process:
        process.wait_for_line("Running on", timeout_s=READY_TIMEOUT_S)
        address = f"http://127.0.0.1:{port}"
        with urlopen(Request(f"{address}/{bucket}", method="PUT"), timeout=READY_TIMEOUT_S):
            pass
        yield address
        process.stop()
