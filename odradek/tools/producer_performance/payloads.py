"""The values that `odradek producer-perf-test` sends.  Deterministic: the seed is fixed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from odradek.bounded_files import read_file
from odradek.tools.console.errors import ConsoleError

POOL_BYTES: Final = 8 << 20
"""Random letters from which values are cut.  More than the window of any codec, so batches
compress about as well as if each letter were drawn for its record, as Kafka's tool does."""
FILE_BYTES_MAX: Final = 1 << 30
SEED: Final = 0
_LETTERS: Final = bytes(ord("A") + number % 26 for number in range(256))

Payloads = Callable[[int, int], list[dict[str, Any]]]
"""(number of the first record, count) -> rows for the library's `produce_batch`."""


def random_letters(size_bytes: int, record_count: int) -> Payloads:
    """Values of `size_bytes` letters A to Z each.

    record_count  how many will be asked for: a few need no large pool
    """
    generator = random.Random(SEED)
    starts = min(POOL_BYTES, size_bytes * record_count)
    pool = generator.randbytes(starts + size_bytes).translate(_LETTERS)
    uniform = generator.random

    def cut(_: int, count: int) -> list[dict[str, Any]]:
        rows = []
        for _ in range(count):
            start = int(uniform() * starts)
            rows.append({"value": pool[start : start + size_bytes]})
        return rows

    return cut


def numbers(first: int, count: int) -> list[dict[str, Any]]:
    """Values that are the numbers of their records, as decimal text."""
    return [{"value": str(number)} for number in range(first, first + count)]


def lines_of_file(path: str, delimiter: str) -> Payloads:
    """Values that are drawn from a file of UTF-8 text; prints what was read.

    delimiter  a line feed may be written as a backslash and an n
    raises     ConsoleError for a file that is missing, empty or not a text
    """
    print(f"Reading payloads from: {Path(path).absolute()}", flush=True)
    try:
        text = read_file(path, FILE_BYTES_MAX).decode()
    except FileNotFoundError:
        text = ""
    except UnicodeDecodeError as error:
        raise ConsoleError(
            "java.lang.IllegalArgumentException", f"{path} is not a text in UTF-8: {error}"
        ) from error
    if not text:
        raise ConsoleError(
            "java.lang.IllegalArgumentException", "File does not exist or empty file provided."
        )
    separator = "\n" if delimiter == "\\n" else delimiter
    values = text.split(separator) if separator else list(text)
    while len(values) > 1 and not values[-1]:
        # Java's String.split drops empty texts at the end.
        values.pop()
    print(f"Number of messages read: {len(values)}", flush=True)
    choose = random.Random(SEED).choice
    return lambda _, count: [{"value": choose(values)} for _ in range(count)]
