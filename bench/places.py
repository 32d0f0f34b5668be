"""Where the measurements find and leave things, all inside the project."""

from __future__ import annotations

from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
TOOLS = PROJECT / ".tools"
"""Brokers of others, fetched once."""
BUILD = PROJECT / "build" / "bench"
BINARIES = BUILD / "bin"
"""The compiled clients."""
WORK = BUILD / "work"
"""Data directories while they are measured; the file system below decides the figures."""
RESULTS = PROJECT / "bench" / "results"
"""One JSON file per row: every round of every target."""
TABLE = PROJECT / "bench" / "RESULTS.md"
