"""Why a start ends before clients are served."""

from __future__ import annotations


class StartError(Exception):
    """The broker cannot start; one line says why."""


class StartInterrupted(Exception):
    """A signal came before the broker was ready."""
