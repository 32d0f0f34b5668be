"""The error of a step whose input has unsuitable columns."""

from __future__ import annotations


class StepInputError(ValueError):
    """The input of a step lacks a column, or has a wrong type; the message is one line."""
