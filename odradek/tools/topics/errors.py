"""Errors of `odradek topics`, with the texts of Kafka's tool."""

from __future__ import annotations

from odradek.protocol.errors import ErrorCode
from odradek.tools.errors import ToolError, error_text


class TopicsError(ToolError):
    """The action failed; the message is one line."""


def check(code: int, message: str | None = None) -> None:
    """Raise TopicsError for an error code, unless it is 0."""
    if not code:
        return
    if message:
        raise TopicsError(message)
    if code not in list(ErrorCode):
        raise TopicsError(f"The broker responds with the unknown error {code}.")
    raise TopicsError(error_text(code))
