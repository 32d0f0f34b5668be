"""Files with secrets, for their owner to read."""

from __future__ import annotations

import os
from contextlib import suppress


def write_private(path: str | os.PathLike[str], text: str) -> None:
    """Write a file that its owner alone reads, whole or not at all.

    raises  OSError
    """
    new = f"{os.fspath(path)}.new"
    with suppress(FileNotFoundError):
        os.unlink(new)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        opened.write(text)
    os.replace(new, path)
