"""Removes the files of a cleaning that were not put into place."""

from __future__ import annotations

import contextlib

from odradek.runtime.files import FileSystem
from odradek.storage.files.names import CLEANED


def remove_leftovers(files: FileSystem, directory: str) -> None:
    """Remove the `.cleaned` files in a partition's folder; nothing when the folder does not exist.

    raises  OSError
    """
    try:
        file_names = files.list_files(directory).files
    except FileNotFoundError:
        return
    for name in file_names:
        if name.endswith(CLEANED):
            with contextlib.suppress(FileNotFoundError):
                files.remove(f"{directory}/{name}")
