"""Log directories without space: noticed when appends are refused, left when there is space again.

    has space   an append is refused                                        -> suspected
    suspected   after 3 s a look finds space                                 -> has space
    suspected   after 3 s a look finds none                                 -> full
    full        after its rest, a look finds space                           -> has space

A directory that fills up again within ten minutes rests twice as long, from 10 s to 2 minutes, so
that leaderships do not go to and fro.  Pure; its caller looks.
"""

from __future__ import annotations

from typing import Final

GRACE_MS: Final = 3_000
"""Retention or the cleaner may free space within it, and no leadership moves."""
LOOK_MS: Final = 2_000
"""Between two looks at a full directory that has rested."""
REST_MS: Final = 10_000
REST_MAX_MS: Final = 120_000
REMEMBERED_MS: Final = 600_000
"""How long after it a directory that had no space rests longer the next time."""


class _Directory:
    __slots__ = ("is_full", "is_looked_at", "left_ms", "look_ms", "refused_ms", "rest_ms")

    def __init__(self) -> None:
        self.refused_ms: int | None = None
        """The first refusal since the last look; None: nothing was refused since."""
        self.is_full = False
        self.is_looked_at = False
        self.look_ms = 0
        self.rest_ms = REST_MS
        self.left_ms: int | None = None
        """When it last had space again."""


class FullDirectories:
    """The log directories of one broker in which appends were refused; times are monotonic."""

    def __init__(self) -> None:
        self._directories: dict[str, _Directory] = {}
        """At most one for each of log.dirs."""
        self.count = 0
        """How many are full."""

    def note_refused(self, folder: str, now_ms: int) -> None:
        """An append to the log in `folder` was refused for want of space."""
        path = folder.rpartition("/")[0]
        directory = self._directories.get(path)
        if directory is None:
            directory = self._directories[path] = _Directory()
        if directory.refused_ms is None:
            directory.refused_ms = now_ms
            if not directory.is_full:
                directory.look_ms = now_ms + GRACE_MS

    def is_full(self, path: str) -> bool:
        """Whether the replicas in the directory are to be led elsewhere."""
        directory = self._directories.get(path)
        return directory is not None and directory.is_full

    def begin_looks(self, now_ms: int) -> list[str]:
        """The directories whose space is to be looked at now; `on_looked` is called for each."""
        due: list[str] = []
        for path, directory in self._directories.items():
            is_asked = directory.is_full or directory.refused_ms is not None
            if is_asked and not directory.is_looked_at and now_ms >= directory.look_ms:
                directory.is_looked_at = True
                due.append(path)
        return due

    def on_looked(self, path: str, *, has_space: bool, now_ms: int) -> bool:
        """A look has ended; returns whether the directory is full now and was not, or vice versa.

        has_space  a file could be written, and enough space is left besides
        """
        directory = self._directories[path]
        directory.is_looked_at = False
        directory.refused_ms = None
        directory.look_ms = now_ms + LOOK_MS
        if directory.is_full is not has_space:
            return False
        directory.is_full = not has_space
        if has_space:
            self.count -= 1
            directory.left_ms = now_ms
            return True
        self.count += 1
        is_again = directory.left_ms is not None and now_ms - directory.left_ms < REMEMBERED_MS
        directory.rest_ms = min(2 * directory.rest_ms, REST_MAX_MS) if is_again else REST_MS
        directory.look_ms = now_ms + directory.rest_ms
        return True
