"""How long functions and files may be."""

from __future__ import annotations

from typing import Final

from tests.repository.sources import Function, everything

FUNCTION_LINES_MAX: Final = 60
FILE_LINES_MAX: Final = 800
"""A file above 500 lines is a question in a review, not an error."""


def test_files_have_at_most_eight_hundred_lines() -> None:
    lengths = {file.name: len(file.text.splitlines()) for file in everything()}
    assert not {name: lines for name, lines in lengths.items() if lines > FILE_LINES_MAX}


def test_functions_have_at_most_sixty_lines() -> None:
    lengths = {
        f"{file.name}: {node.name}": node.end_lineno - node.lineno + 1
        for file in everything()
        for node in file.nodes
        if isinstance(node, Function) and node.end_lineno is not None
    }
    long = {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES_MAX}
    assert not long
