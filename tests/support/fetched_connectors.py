"""Connectors that Spark fetches itself, as for users: Delta Lake, Iceberg, S3, Kafka."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from tests.support import tool_cache
from tests.support.prepare import SPARK_VERSION

NEEDS: Final = ("kafka", "delta", "iceberg", "s3")
WARM_UP: Final = f"""\
from odradek.pipeline.spark.session import close_session, open_session
close_session(open_session("warm-up", needs={NEEDS}, master="local[1]"))
"""


def environment() -> dict[str, str]:
    """What a job wants in order to find them without a network."""

    def make(folder: Path) -> None:
        tool_cache.run_tool(
            [sys.executable, "-c", WARM_UP],
            folder=tool_cache.PROJECT,
            environment={**os.environ, "XDG_CACHE_HOME": str(folder)},
        )

    sources = [tool_cache.PROJECT / "pipeline" / name for name in ("connectors.py", "session.py")]
    mark = tool_cache.fingerprint([SPARK_VERSION, *NEEDS, *sources])
    target = tool_cache.build_once(tool_cache.TOOLS / "fetched-connectors", mark, make)
    return {"XDG_CACHE_HOME": str(target)}
