"""Names of users and clients as nodes of ZooKeeper are called after them.

Source: Kafka's Sanitizer.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

NOT_NODES: Final = (".", "..")
"""Names that sanitizing leaves as they are, and that no node of ZooKeeper has."""


def sanitized(name: str) -> str:
    """The name in a path: every other character than letters, digits and `-_.` is `%XX`."""
    return quote(name, safe="").replace("~", "%7E")


def desanitized(entity: str) -> str:
    """The name that an entity in a path stands for."""
    return unquote(entity)
