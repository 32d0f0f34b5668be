"""What a folder must not contain, and which folders must not import each other."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import PurePosixPath
from typing import Final

from odradek.broker.handlers.shared.table import HANDLERS
from tests.repository.graph import cycles
from tests.repository.sources import product, sources
from tests.repository.test_imports import import_graph

OF_TESTS: Final = re.compile(r"(?<![A-Za-z])[Tt]ests?(?![a-z])")


def circles_of_neighbours(graph: dict[str, set[str]]) -> set[tuple[str, ...]]:
    """Groups of folders and files of one folder that import each other.

    graph  file -> files that it imports.  A folder stands for all that is in it.
    """
    neighbours: defaultdict[str, dict[str, set[str]]] = defaultdict(dict)
    for name, imported in graph.items():
        for other in imported:
            parts, other_parts = name.split("/"), other.split("/")
            depth = next(
                depth
                for depth, (part, other_part) in enumerate(zip(parts, other_parts, strict=False))
                if part != other_part
            )
            parent = "/".join(parts[:depth])
            # What is directly in `parent` and is, or contains, each of the two.
            child = "/".join(parts[: depth + 1])
            imported_child = "/".join(other_parts[: depth + 1])
            neighbours[parent].setdefault(child, set()).add(imported_child)
            neighbours[parent].setdefault(imported_child, set())
    return {tuple(circle) for children in neighbours.values() for circle in cycles(children)}


def installed(name: str) -> str:
    """The path of a file by the symbolic links, through which it is imported."""
    return name if name.startswith("odradek/") else f"odradek/{name}"


def test_folders_and_files_of_one_folder_do_not_import_each_other_in_a_circle() -> None:
    graph = {
        installed(name): {installed(other) for other in imported}
        for name, imported in import_graph(product()).items()
    }
    assert not circles_of_neighbours(graph)


def test_circles_of_neighbours_are_found() -> None:
    graph = {"p/a/x.py": {"p/b/c/y.py"}, "p/b/c/y.py": {"p/b/z.py"}, "p/b/z.py": {"p/a/w.py"}}
    assert circles_of_neighbours(graph) == {("p/a", "p/b")}
    assert circles_of_neighbours({"p/a/x.py": {"p/b.py"}, "p/b.py": {"q/a.py"}}) == set()


def test_files_of_handlers_are_the_apis_of_the_table() -> None:
    files = {
        PurePosixPath(file.name).stem
        for file in product()
        if PurePosixPath(file.name).parent == PurePosixPath("broker/handlers")
    }
    assert files - {"__init__"} == {api.module for api in HANDLERS}


def test_broker_does_not_mention_tests() -> None:
    """What only brokers for tests need wraps a node from above, in odradek/testing/node."""
    places = [
        f"{file.name}: {line.strip()}"
        for file in sources(".py")
        if file.is_in("broker/")
        for line in (file.name, *file.text.splitlines())
        if OF_TESTS.search(line)
    ]
    assert not places
