"""Files that a pipeline file names, each read up to a bound: a device has no end."""

from __future__ import annotations

import errno
import os
from pathlib import Path as FilePath
from typing import Final

TEXT_BYTES_MAX: Final = 4 << 20
"""The size of a pipeline file, an included file, a query, and the rows of a test."""
DESCRIPTOR_BYTES_MAX: Final = 64 << 20


def read_bytes(path: FilePath, bytes_max: int = DESCRIPTOR_BYTES_MAX) -> bytes:
    """The content of a file.

    raises  OSError, EFBIG for one that is larger, EINVAL for a name that no file can have
    """
    try:
        with open(path, "rb") as file:
            content = file.read(bytes_max + 1)
    except ValueError as error:
        # A name with a NUL, or with a lone surrogate.
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path)) from error
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"more than {bytes_max} bytes", str(path))
    return content


def read_text(path: FilePath) -> str:
    """The text of a file, without a byte order mark.

    raises  OSError as `read_bytes`; UnicodeDecodeError
    """
    return read_bytes(path, TEXT_BYTES_MAX).decode("utf-8-sig").replace("\r\n", "\n")
