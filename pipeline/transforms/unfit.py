"""The error of a step that the rows above it do not fit."""

from __future__ import annotations


class Unfit(ValueError):
    """What a step says of columns that are not what it needs; one line."""
