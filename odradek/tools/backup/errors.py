"""Errors of backup and restore."""

from __future__ import annotations

from odradek.tools.errors import ToolError


class BackupError(ToolError):
    """The backup cannot be written, read or restored; the message is one line."""
