"""The one kind of error that malformed bytes give."""

from __future__ import annotations


class DecodeError(ValueError):
    """The bytes are not what the schema says: cut short, a length out of range, bad UTF-8."""
