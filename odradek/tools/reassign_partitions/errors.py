"""Errors of `odradek reassign-partitions`."""

from __future__ import annotations

from odradek.tools.errors import ToolError


class TerseError(ToolError):
    """Kafka's tool prints the message alone, without `Error: ` before it."""
