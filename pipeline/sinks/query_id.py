"""The id of a query, which Spark stores in its checkpoint."""

from __future__ import annotations

from pathlib import Path

from odradek.bounded_parsing import parse_json


def query_id(checkpoint: Path) -> str:
    """The id of the query of a checkpoint; a new checkpoint has another one."""
    return str(parse_json((checkpoint / "metadata").read_text())["id"])
