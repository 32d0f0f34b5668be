"""Files that a pipeline file names, each read up to a bound: a device has no end."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Final

from odradek.bounded_files import read_file

TEXT_BYTES_MAX: Final = 4 << 20
"""The size of a pipeline file, an included file, a query, and the rows of a test."""
DESCRIPTOR_BYTES_MAX: Final = 64 << 20


def read_bytes(path: FilePath, bytes_max: int = DESCRIPTOR_BYTES_MAX) -> bytes:
    """The content of a file.

    raises  OSError as `bounded_files.read_file`
    """
    return read_file(path, bytes_max)


def read_text(path: FilePath) -> str:
    """The text of a file, without a byte order mark.

    raises  OSError as `read_bytes`; UnicodeDecodeError
    """
    return read_bytes(path, TEXT_BYTES_MAX).decode("utf-8-sig").replace("\r\n", "\n")
