"""Errors in messages to operators."""

from __future__ import annotations


def error_text(error: BaseException) -> str:
    """The class of an error and its text, or the class alone: `TimeoutError: no response`."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
