"""The id of a query, which Spark stores in its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path


def query_id(checkpoint: Path) -> str:
    """The id of the query of a checkpoint; a new checkpoint has another one."""
    return str(json.loads((checkpoint / "metadata").read_text())["id"])
