"""Removes what an interrupted cleaning or deletion left in a log's folder.

The cleaner writes `<base>.log.cleaned` and its indexes, renames them to `.swap`, sets aside the
segments that they were made of (`.deleted`) and removes the `.swap` suffix.  So

    .deleted   is removed
    .cleaned   is removed: it may be half written
    .swap      is whole, unless a `.cleaned` with the same or a lower base shows that its group was
               not finished: the segments that it covers are removed, then it is renamed

Source: Kafka's LogLoader.removeTempFilesAndCollectSwapFiles; KAFKA-6264, KAFKA-12520.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.runtime.files import FileSystem
from odradek.storage.files import names
from odradek.storage.files.batch_scan import CorruptBatch, iterate_headers


def finish_swaps(files: FileSystem, directory: str, file_names: Sequence[str]) -> list[str]:
    """Remove or rename them; returns the names that are in the folder then.

    raises  OSError; to be done again at the next start
    """
    if not any(name.endswith((names.DELETED, names.CLEANED, names.SWAP)) for name in file_names):
        return list(file_names)
    cleaned_bases = [
        parsed[0]
        for name in file_names
        if name.endswith(names.CLEANED) and (parsed := names.parse_file_name(name)) is not None
    ]
    first_unfinished = min(cleaned_bases, default=None)
    swaps = []
    for name in file_names:
        parsed = names.parse_file_name(name)
        if name.endswith(names.SWAP) and parsed is not None:
            if first_unfinished is None or parsed[0] < first_unfinished:
                swaps.append((parsed[0], name))
            else:
                files.remove(f"{directory}/{name}")
    # A .cleaned file goes after the .swap files that it condemns: a crash between leaves the mark.
    for name in file_names:
        if name.endswith((names.DELETED, names.CLEANED)):
            files.remove(f"{directory}/{name}")
    if swaps:
        _take_over(files, directory, swaps)
    return files.list(directory)


def _take_over(files: FileSystem, directory: str, swaps: Sequence[tuple[int, str]]) -> None:
    logs = [(base, name) for base, name in swaps if name.endswith(names.LOG + names.SWAP)]
    if logs:
        first = logs[0][0]
        last = max(_last_offset(files, f"{directory}/{name}", base) for base, name in logs)
        _remove_covered(files, directory, first, last)
    # The .log file comes last: as long as it is a .swap, all this is done again.
    renamed = [entry for entry in swaps if entry not in logs] + logs
    known = {base for base, _ in logs}
    for base, name in renamed:
        path = f"{directory}/{name}"
        if base in known:
            files.rename(path, path.removesuffix(names.SWAP))
        else:
            # An index belongs to the .log file when that has its name already; else it is useless.
            log_path = f"{directory}/{names.file_name(base, names.LOG)}"
            if files.exists(log_path):
                files.rename(path, path.removesuffix(names.SWAP))
            else:
                files.remove(path)


def _remove_covered(files: FileSystem, directory: str, first: int, last: int) -> None:
    """Remove the segments that begin in first..last, their .log files first."""
    covered = []
    for name in files.list(directory):
        parsed = names.parse_file_name(name)
        if parsed is not None and first <= parsed[0] <= last:
            suffix = parsed[1]
            if suffix in names.SEGMENT_SUFFIXES:
                covered.append((suffix != names.LOG, name))
    for _, name in sorted(covered):
        files.remove(f"{directory}/{name}")


def _last_offset(files: FileSystem, path: str, base_offset: int) -> int:
    file = files.open(path)
    last = base_offset
    try:
        for header in iterate_headers(file, 0, file.size(), chunk_bytes=1 << 16):
            last = header.last_offset
    except CorruptBatch:
        # It was synced before it got its name; what cannot be read is left to the next check.
        pass
    finally:
        file.close()
    return last
