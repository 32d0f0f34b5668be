"""Finds moves of a log to another directory whose renames a crash has interrupted.

`LogManager.replace_with_future` renames two folders, with the same unique digits:

    first   <topic>-<partition>                   to  <topic>-<partition>.<unique>-delete
    second  <topic>-<partition>.<unique>-future   to  <topic>-<partition>

The first name is on disk before the second step.  A copy without its log and without a deleted
folder of the same digits is not complete, and its log may be in a directory that is offline.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.runtime.files import FileSystem
from odradek.storage.files.names import DELETE_FOLDER, FUTURE_FOLDER, folder_name, parse_folder_name


def unique_of(folder: str) -> str:
    """The digits of a suffixed folder's name."""
    return folder.rpartition(".")[2].rpartition("-")[0]


def interrupted_replacements(
    files: FileSystem, directories: Sequence[str]
) -> list[tuple[str, str, str]]:
    """(directory, folder of the copy, folder that it is to have) of each; OSError of a directory
    is met again when it is loaded."""
    names: dict[str, list[str]] = {}
    for directory in directories:
        try:
            names[directory] = files.list(directory)
        except OSError:
            names[directory] = []
    everything = {name for entries in names.values() for name in entries}
    interrupted: list[tuple[str, str, str]] = []
    for directory, entries in names.items():
        for name in entries:
            folder = parse_folder_name(name)
            if folder is None or folder.suffix != FUTURE_FOLDER:
                continue
            target = folder_name(folder.topic, folder.partition)
            deleted = name.removesuffix(FUTURE_FOLDER) + DELETE_FOLDER
            if deleted in everything and target not in everything:
                interrupted.append((directory, f"{directory}/{name}", f"{directory}/{target}"))
    return interrupted
