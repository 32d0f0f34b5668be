"""Errors of `odradek topics`, with the texts of Kafka's tool."""

from __future__ import annotations

from odradek.protocol.errors import ErrorCode
from odradek.tools.errors import ToolError, error_text


def check(code: int, message: str | None = None) -> None:
    """Raise ToolError for an error code, unless it is 0."""
    if not code:
        return
    if message:
        raise ToolError(message)
    if code not in list(ErrorCode):
        raise ToolError(f"The broker responds with the unknown error {code}.")
    raise ToolError(error_text(code))
