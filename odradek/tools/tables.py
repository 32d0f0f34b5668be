"""Tables as Kafka's tools print them, and names in tables of our own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns that are as wide as their widest value, each with a tab after it.

    source  Kafka's ToolsUtils.prettyPrintTable
    """
    table = [list(headers), *([str(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("".join(f"{text:{width}}\t" for text, width in zip(line, widths, strict=True)))


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield lines whose columns are as wide as their widest value, with two blanks between."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def one_line(text: str) -> str:
    """A name that any client may have chosen, without what moves the cursor of a terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
