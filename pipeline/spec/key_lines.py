"""The line of each key of a TOML text, for error messages."""

from __future__ import annotations

from typing import Final

import tree_sitter_toml
from tree_sitter import Language, Node, Parser

from odradek.bounded_parsing import parse_toml

Path = tuple[str | int, ...]
"""Keys from the top level down, and indexes of arrays."""

_KEYS: Final = ("bare_key", "quoted_key", "dotted_key")
_TABLES: Final = ("table", "table_array_element")


def lines_of(text: str) -> dict[Path, int]:
    """Line (from 1) of each key and of each array element that is a table.

    cost  one pass; for invalid TOML the result is incomplete
    """
    tree = Parser(Language(tree_sitter_toml.language())).parse(text.encode())
    lines: dict[Path, int] = {(): 1}
    counts: dict[Path, int] = {}
    for node in tree.root_node.named_children:
        if node.type == "pair":
            _pair(node, (), lines)
        elif node.type in _TABLES:
            _table(node, lines, counts)
    return lines


def _table(node: Node, lines: dict[Path, int], counts: dict[Path, int]) -> None:
    head = next(child for child in node.named_children if child.type in _KEYS)
    path = _placed(_names(head), counts)
    if node.type == "table_array_element":
        number = counts.get(path, 0)
        counts[path] = number + 1
        lines.setdefault(path, _line(node))
        path = (*path, number)
    _note(path, node, lines)
    for child in node.named_children:
        if child.type == "pair":
            _pair(child, path, lines)


def _placed(names: Path, counts: dict[Path, int]) -> Path:
    """Add the index of the last element after each array of tables in `names`."""
    placed: Path = ()
    for number, name in enumerate(names):
        placed = (*placed, name)
        if placed in counts and number < len(names) - 1:
            placed = (*placed, counts[placed] - 1)
    return placed


def _pair(node: Node, above: Path, lines: dict[Path, int]) -> None:
    key, *rest = (child for child in node.named_children if child.type != "comment")
    path = (*above, *_names(key))
    _note(path, node, lines)
    for value in rest:
        _value(value, path, lines)


def _value(node: Node, path: Path, lines: dict[Path, int]) -> None:
    if node.type == "inline_table":
        for child in node.named_children:
            if child.type == "pair":
                _pair(child, path, lines)
    elif node.type == "array":
        values = [child for child in node.named_children if child.type != "comment"]
        for number, child in enumerate(values):
            lines[*path, number] = _line(child)
            _value(child, (*path, number), lines)


def _note(path: Path, node: Node, lines: dict[Path, int]) -> None:
    for length in range(1, len(path) + 1):
        lines.setdefault(path[:length], _line(node))


def _names(key: Node) -> Path:
    if key.type == "dotted_key":
        return tuple(name for child in key.named_children for name in _names(child))
    text = (key.text or b"").decode()
    if key.type == "bare_key":
        return (text,)
    # The parser of TOML knows the escapes of quoted keys.
    return (next(iter(parse_toml(f"{text} = 0"))),)


def _line(node: Node) -> int:
    return int(node.start_point[0]) + 1
