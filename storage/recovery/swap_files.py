"""Removes what an interrupted cleaning or deletion left in a log's folder.

The cleaner writes `<base>.log.cleaned` and its indexes, renames them to `.swap`, sets aside the
segments that they were made of (`.deleted`) and removes the `.swap` suffix.  So

    .deleted   is removed
    .cleaned   is removed: it may be half written
    .swap      is whole, unless a `.cleaned` with the same or a lower base shows that its group was
               not finished: the segments that it covers are removed, then it is renamed

Differs from Kafka: every batch of a `.swap` is verified before segments are removed for it.  The
oldest of these is set aside first, so while it is there nothing of them is missing, and a damaged
`.swap` is removed; the cleaning is done again.  Without it the `.swap` is all that is left of the
records: it is put into place as it is, and reading reports the damage.

Source: Kafka's LogLoader.removeTempFilesAndCollectSwapFiles; KAFKA-6264, KAFKA-12520.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from odradek.protocol.records.batch import MAGIC
from odradek.runtime.files import File, FileSystem
from odradek.storage.events import Report, StorageEvent
from odradek.storage.files import names
from odradek.storage.files.batch_scan import CorruptBatch, iterate_batches, iterate_headers
from odradek.storage.recovery.torn_segments import flaw_of

_NO_LIMIT: Final = 2**63


class _Verified(NamedTuple):
    """What a `.log.swap` contains."""

    last_offset: int
    """Of its whole batches; its base without any."""
    flaw: str | None


def finish_swaps(
    files: FileSystem, directory: str, file_names: Sequence[str], report: Report
) -> list[str]:
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
    if first_unfinished is not None and not _has_log(files, directory, first_unfinished):
        # What was to be replaced is gone: a .swap may be all that is left of it.
        first_unfinished = None
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
        _take_over(files, directory, swaps, report)
    return files.list_files(directory).files


def _has_log(files: FileSystem, directory: str, base_offset: int) -> bool:
    return files.exists(f"{directory}/{names.file_name(base_offset, names.LOG)}")


def _take_over(
    files: FileSystem, directory: str, swaps: Sequence[tuple[int, str]], report: Report
) -> None:
    logs = [(base, name) for base, name in swaps if name.endswith(names.LOG + names.SWAP)]
    if logs:
        first = logs[0][0]
        verified = _verify_all(files, directory, logs)
        is_damaged = any(swap.flaw is not None for swap in verified.values())
        is_replaceable = is_damaged and _has_log(files, directory, first)
        outcome = "removed, its segment stays" if is_replaceable else "used, nothing else is left"
        for path, swap in verified.items():
            if swap.flaw is not None:
                report(StorageEvent(path, f"{outcome}: {swap.flaw}"))
        if is_replaceable:
            for _, name in swaps:
                files.remove(f"{directory}/{name}")
            return
        last = max(swap.last_offset for swap in verified.values())
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
    for name in files.list_files(directory).files:
        parsed = names.parse_file_name(name)
        if parsed is not None and first <= parsed[0] <= last:
            suffix = parsed[1]
            if suffix in names.SEGMENT_SUFFIXES:
                covered.append((suffix != names.LOG, name))
    for _, name in sorted(covered):
        files.remove(f"{directory}/{name}")


def _verify_all(
    files: FileSystem, directory: str, logs: Sequence[tuple[int, str]]
) -> dict[str, _Verified]:
    """By path, in the order of their bases."""
    live = [
        parsed[0]
        for name in files.list_files(directory).files
        if (parsed := names.parse_file_name(name)) is not None and parsed[1] == names.LOG
    ]
    # The active segment is never cleaned.
    limit = live[-1] if live and live[-1] > logs[-1][0] else _NO_LIMIT
    verified = {}
    for base_offset, name in reversed(logs):
        path = f"{directory}/{name}"
        file = files.open(path)
        try:
            verified[path] = _verify(file, base_offset, limit)
        finally:
            file.close()
        limit = base_offset
    return dict(reversed(verified.items()))


def _verify(file: File, base_offset: int, limit: int) -> _Verified:
    """limit  the offset at which the next segment begins"""
    size, end_position, end_offset = file.size(), 0, base_offset
    last_offset = base_offset
    for position, batch in iterate_batches(file, 0, size):
        flaw = flaw_of(base_offset, batch)
        if flaw is None and not end_offset <= batch.base_offset <= batch.last_offset < limit:
            flaw = f"offsets {batch.base_offset} to {batch.last_offset} cannot be there"
        if flaw is not None:
            return _Verified(last_offset, f"at byte {position} {flaw}")
        end_position, end_offset = position + batch.size, batch.next_offset
        last_offset = batch.last_offset
    try:
        for header in iterate_headers(file, end_position, size, chunk_bytes=1 << 16):
            # Of a format from before Kafka 0.11, whose checksum is not looked at.
            if header.magic == MAGIC or not end_offset <= header.base_offset < limit:
                return _Verified(last_offset, f"no whole batch at byte {header.position}")
            end_offset, last_offset = header.last_offset + 1, header.last_offset
    except CorruptBatch as error:
        return _Verified(last_offset, str(error))
    return _Verified(last_offset, None)
