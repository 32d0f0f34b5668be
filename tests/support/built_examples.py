"""Examples whose libraries are fetched once."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support import tool_cache

EXAMPLES: Final = tool_cache.PROJECT / "examples"


def built(name: str, command: Sequence[str], *programs: Path) -> Path:
    """A copy of an example's folder, in which `command` has fetched its libraries.

    programs  files of tests that use these libraries, put beside the example
    """
    sources = sorted(
        path
        for path in (EXAMPLES / name).rglob("*")
        if path.is_file() and "node_modules" not in path.parts
    )

    def make(folder: Path) -> None:
        for source in sources:
            target = folder / source.relative_to(EXAMPLES / name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        for program in programs:
            shutil.copy(program, folder)
        tool_cache.run_tool(list(command), folder=folder)

    mark = tool_cache.fingerprint([*sources, *programs, *command])
    return tool_cache.build_once(tool_cache.TOOLS / "examples" / name, mark, make)
