"""How the optional libraries of a command are installed."""

from __future__ import annotations

from typing import Final

INSTALL: Final = "pip install '.[{}]' in a clone of Odradek"
"""The line of every message: no registry of packages has Odradek under that name."""


def missing_library(library: str, extra: str) -> str:
    """The message for a library that a command needs and that is not installed.

    extra  the group of dependencies that has it: `console`, `pipeline` or `tools`
    """
    return f"this command needs the library {library}: {INSTALL.format(extra)}"
