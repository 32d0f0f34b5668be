"""Spark's log of the offsets at which the batches of a query end, in its checkpoint folder.

Source: OffsetSeqLog and KafkaSourceInitialOffsetWriter of Spark.  The folder is a local one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from odradek.bounded_parsing import UnreadableText, parse_json
from odradek.pipeline.spec.bounded_files import read_bytes

VERSION: Final = "v1"
HEADER_LINES: Final = 2
"""Version and metadata; then one line for each source."""
LoggedOffsets = dict[str, dict[str, int]]
"""Topic -> partition -> offset, as in the log."""


class UnknownLog(Exception):
    """The log is missing or has another format."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one partition that a batch has planned to read.

    source  the number of the source in the log
    begin   None: the partition is new, and is read from its start
    end     the first offset after the records
    """

    source: int
    topic: str
    partition: int
    begin: int | None
    end: int


class OffsetLog:
    """The offset log of a query that uses Kafka sources; other sources are left out.

    checkpoint  the folder of the query
    """

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint

    def unfinished(self) -> int | None:
        """The number of the batch that is planned and not committed; None: there is none."""
        planned, committed = self._last("offsets"), self._last("commits")
        return planned if planned is not None and planned != committed else None

    def _last(self, folder: str) -> int | None:
        names = [path.name for path in (self._checkpoint / folder).glob("*")]
        return max((int(name) for name in names if name.isdecimal()), default=None)

    def ranges(self, number: int) -> list[OffsetRange]:
        """The records of a batch, without the partitions that have none.

        raises  UnknownLog
        """
        ranges: list[OffsetRange] = []
        before = self._lines(number - 1)[HEADER_LINES:] if number else []
        for source, line in enumerate(self._lines(number)[HEADER_LINES:]):
            end = _offsets(line)
            if not end:
                continue
            begin: LoggedOffsets | None
            if number == 0:
                begin = self._initial(source)
            else:
                begin = _offsets(before[source]) if source < len(before) else None
            for topic, partitions in end.items():
                first = (begin or {}).get(topic, {})
                ranges += [
                    OffsetRange(source, topic, int(partition), first.get(partition), offset)
                    for partition, offset in partitions.items()
                    if first.get(partition) != offset
                ]
        return ranges

    def _initial(self, source: int) -> LoggedOffsets:
        """Where a source of Kafka starts.

        raises  UnknownLog
        """
        path = self._checkpoint / "sources" / str(source) / "0"
        try:
            data = read_bytes(path)
        except OSError as error:
            raise UnknownLog(f"{path} cannot be read: {error}") from error
        # A byte before the version is for Spark 2.1.
        version, _, line = data.removeprefix(b"\0").decode(errors="replace").partition("\n")
        offsets = _offsets(line)
        if version != VERSION or offsets is None:
            raise UnknownLog(f"{path} has another format than {VERSION}")
        return offsets

    def set_ends(self, number: int, ends: Mapping[tuple[int, str, int], int]) -> None:
        """Let a batch end at other offsets; they are also where the next one begins.

        Only for a query that does not run.
        ends    (source, topic, partition) -> offset
        raises  UnknownLog, OSError
        """
        lines = self._lines(number)
        for (source, topic, partition), offset in ends.items():
            place = HEADER_LINES + source
            offsets = _offsets(lines[place])
            if offsets is None:
                raise UnknownLog(f"source {source} of batch {number} is not one of Kafka")
            offsets[topic][str(partition)] = offset
            lines[place] = json.dumps(offsets, separators=(",", ":"))
        path = self._checkpoint / "offsets" / str(number)
        # Without a file of checksums Hadoop does not compare any.
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        write_durably(path, "\n".join(lines))

    def _lines(self, number: int) -> list[str]:
        path = self._checkpoint / "offsets" / str(number)
        try:
            lines = read_bytes(path).decode().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UnknownLog(f"{path} cannot be read: {error}") from error
        if len(lines) <= HEADER_LINES or lines[0] != VERSION:
            raise UnknownLog(f"{path} has another format than {VERSION}")
        return lines


def write_durably(path: Path, text: str) -> None:
    """Replace a file of a checkpoint folder: after a crash it has the old text or the new one.

    raises  OSError
    """
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


def _offsets(line: str) -> LoggedOffsets | None:
    """The offsets in a line of the log; None for a source that is not one of Kafka."""
    try:
        offsets: Any = parse_json(line)
    except UnreadableText:
        return None
    is_of_kafka = isinstance(offsets, dict) and all(
        isinstance(partitions, dict)
        and all(
            number.isdecimal() and isinstance(offset, int) for number, offset in partitions.items()
        )
        for partitions in offsets.values()
    )
    return offsets if is_of_kafka else None
