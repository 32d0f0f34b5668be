"""The newest PySpark that pipelines work with, in a virtual environment of its own.

The tests' own environment has the lowest.  Connectors come the way that users get them: through
Ivy, which takes known versions where Maven Central lacks those of this PySpark.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path
from typing import Final

from tests.support import tool_cache

VERSION: Final = "4.3.0"
WARM_UP: Final = """\
from odradek.pipeline.spark.connectors import NEEDS
from odradek.pipeline.spark.session import close_session, open_session
close_session(open_session("warm-up", needs=NEEDS, master="local[1]"))
"""


def python() -> Path:
    """The interpreter of an environment with what the extra `pipeline` asks for."""
    with (tool_cache.PROJECT / "pyproject.toml").open("rb") as file:
        dependencies = tomllib.load(file)["project"]["optional-dependencies"]["pipeline"]
    requirements = [*dependencies, f"pyspark=={VERSION}"]

    def make(folder: Path) -> None:
        tool_cache.run_tool([sys.executable, "-m", "venv", str(folder / "venv")], folder=folder)
        install = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        tool_cache.run_tool([*install, *requirements], folder=folder)

    mark = tool_cache.fingerprint([*requirements, sys.version])
    target = tool_cache.TOOLS / "pyspark" / VERSION
    return tool_cache.build_once(target, mark, make) / "venv" / "bin" / "python"


def environment() -> dict[str, str]:
    """What a process of it wants: the project, and connectors that were fetched before."""

    def make(folder: Path) -> None:
        tool_cache.run_tool(
            [str(python()), "-c", WARM_UP],
            folder=folder,
            environment={**os.environ, **_environment(folder)},
        )

    sources = [
        tool_cache.PROJECT / "pipeline/spark" / name for name in ("connectors.py", "session.py")
    ]
    target = tool_cache.TOOLS / "pyspark" / f"connectors-{VERSION}"
    mark = tool_cache.fingerprint([VERSION, *sources])
    return _environment(tool_cache.build_once(target, mark, make))


def _environment(cache: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(tool_cache.PROJECT)}


def main() -> None:
    """Make both."""
    environment()
