"""Where source becomes a function: the only place of the protocol that calls `exec`.

The source is made from message declarations alone, never from what a client sends or a file
contains.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def compile_function(name: str, source: str, namespace: dict[str, Any]) -> Callable[..., Any]:
    """The function `name` of the source; `namespace` becomes its globals."""
    exec(compile(source, f"<{name}>", "exec"), namespace)
    made: Callable[..., Any] = namespace[name]
    return made
