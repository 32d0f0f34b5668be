"""The files of the repository, read and parsed once."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("broker", "controller", "pipeline", "protocol", "runtime", "storage")
"""Folders at the top level; each is imported as `odradek.<package>`, through a symbolic link."""
PRODUCT: Final = ("odradek", *PACKAGES)
CHECKS: Final = ("tests", "bench", "docs", "examples")
"""Folders with Python that is not installed."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """A file of the repository that is text; `name` is its path from the root."""

    name: str

    @cached_property
    def text(self) -> str:
        return (ROOT / self.name).read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=self.name)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def module(self) -> str:
        """The name that imports the file; a package has the name of its folder."""
        path = self.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return f"odradek.{path}" if self.name.startswith(PACKAGES) else path

    def is_in(self, *folders: str) -> bool:
        """Whether it is one of these files, or in one of these folders (which end with `/`)."""
        return any(
            self.name.startswith(folder) if folder.endswith("/") else self.name == folder
            for folder in folders
        )


@cache
def tracked() -> tuple[str, ...]:
    """Files that git tracks or would track, without symbolic links and without deleted ones."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout.split("\0")
    files = (name for name in set(listed) if name and (ROOT / name).is_file())
    return tuple(sorted(name for name in files if not (ROOT / name).is_symlink()))


@cache
def sources(*suffixes: str) -> tuple[Source, ...]:
    """All files with one of these suffixes."""
    return tuple(Source(name) for name in tracked() if name.endswith(suffixes))


@cache
def python(*folders: str) -> tuple[Source, ...]:
    """The Python files in these folders at the top level."""
    return tuple(file for file in sources(".py") if file.name.split("/")[0] in folders)


def product() -> tuple[Source, ...]:
    """The Python files that are installed."""
    return python(*PRODUCT)


def everything() -> tuple[Source, ...]:
    """All Python files."""
    return python(*PRODUCT, *CHECKS)


def imported_modules(source: Source) -> Iterator[str]:
    """Full names that the file imports anywhere: at load, under TYPE_CHECKING or in a function.

    `from package import name` gives both `package` and `package.name`, one of which is a module.
    """
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
