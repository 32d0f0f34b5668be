"""Names that no code uses.

A module-level name, or a public method of a public class, is dead when no live code refers to its
identifier.  Code at the top of a module is live; the body of a function, class, method or constant
is live when its own identifier is (so what only dead code uses is dead too, and a method that only
calls a method of the same name does not keep both alive).  The comparison is by identifier: a name
shared with something that is used passes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from tests.repository.sources import Function, Source

PLAIN_DECORATORS = {"property", "staticmethod", "classmethod", "abstractmethod", "cached_property"}
DOTTED = re.compile(r"[A-Za-z_]\w*([.:][A-Za-z_]\w*)+")


@dataclass
class Definition:
    """A definition and what its code refers to."""

    path: str
    line: int
    name: str
    """`function`, `CONSTANT`, `Class` or `Class.method`."""
    nodes: list[ast.AST]
    """Its code, without its public methods."""
    is_registered: bool = False
    """A decorator may hand the function to a framework that calls it."""

    @cached_property
    def references(self) -> set[str]:
        """Identifiers that its code refers to."""
        return references(self.nodes)

    @property
    def identifier(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def needs_user(self) -> bool:
        """Whether it is a name of a module or a public method of a public class."""
        if "." in self.name:
            return not any(part.startswith("_") for part in self.name.split("."))
        return not self.name.startswith("__")

    def is_allowed(self, allowed: Mapping[str, str]) -> bool:
        """`allowed` has `path:name`, or folders that end with `/`."""
        return f"{self.path}:{self.name}" in allowed or any(
            folder.endswith("/") and self.path.startswith(folder) for folder in allowed
        )


def definitions(source: Source, *, has_methods: bool = True) -> Iterator[Definition]:
    """All definitions of a module; code outside of definitions comes under the name ''.

    has_methods  methods are definitions of their own; else they are parts of their classes
    """
    top = Definition(source.name, 1, "", [])
    yield top
    for node in source.tree.body:
        match node:
            case ast.ClassDef():
                if has_methods:
                    yield from _definitions_of_class(source.name, node)
                else:
                    yield Definition(source.name, node.lineno, node.name, [node])
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield Definition(source.name, node.lineno, name, [node], _is_registered(node))
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield Definition(source.name, node.lineno, name, [node])
            case ast.Import() | ast.ImportFrom():
                pass  # ruff finds names that are imported and not used
            case _:
                top.nodes.append(node)


def _definitions_of_class(path: str, node: ast.ClassDef) -> Iterator[Definition]:
    rest: list[ast.AST] = [*node.bases, *node.keywords, *node.decorator_list]
    for inner in node.body:
        if isinstance(inner, Function) and not (
            node.name.startswith("_") or inner.name.startswith("__") or _is_registered(inner)
        ):
            name = f"{node.name}.{inner.name}"
            yield Definition(path, inner.lineno, name, [inner])
        else:
            rest.append(inner)
    yield Definition(path, node.lineno, node.name, rest)


def _is_registered(function: Function) -> bool:
    """Whether a decorator hands the function to a framework that calls it (pydantic, say)."""
    return any(
        isinstance(decorator, ast.Call) or ast.unparse(decorator) not in PLAIN_DECORATORS
        for decorator in function.decorator_list
    )


def references(nodes: Iterable[ast.AST]) -> set[str]:
    """Names read, attributes, keywords, imports, and the parts of dotted string constants.

    The last are modules and functions that are imported by name.
    """
    names: set[str] = set()
    for node in chain.from_iterable(map(ast.walk, nodes)):
        # Faster than a `match`, and there are two million nodes.
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and DOTTED.fullmatch(node.value):
                names.update(re.split("[.:]", node.value))
        elif isinstance(node, ast.keyword):
            if node.arg is not None:
                names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add(node.name.rpartition(".")[2])
    return names


def dead_names(
    files: Iterable[Source], allowed: Mapping[str, str], *, has_methods: bool = True
) -> list[Definition]:
    """Definitions that no live code refers to, by path and line."""
    all_definitions = [
        definition
        for source in files
        for definition in definitions(source, has_methods=has_methods)
    ]
    waiting: dict[str, list[Definition]] = {}
    for definition in all_definitions:
        waiting.setdefault(definition.identifier, []).append(definition)
    live: set[str] = set()
    reached = [
        "",
        *(
            definition.identifier
            for definition in all_definitions
            if definition.is_allowed(allowed)
        ),
    ]
    while reached:
        identifier = reached.pop()
        if identifier not in live:
            live.add(identifier)
            for definition in waiting.get(identifier, ()):
                reached += definition.references - live
    return [
        definition
        for definition in all_definitions
        if definition.name
        and definition.needs_user
        and definition.identifier not in live
        and not definition.is_allowed(allowed)
    ]
