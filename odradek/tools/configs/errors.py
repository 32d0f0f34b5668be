"""The error of a request that makes no sense."""

from __future__ import annotations

from odradek.tools.errors import ToolError


class ConfigsError(ToolError):
    """The request makes no sense; the message is all that Kafka's tool prints."""
