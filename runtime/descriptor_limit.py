"""The limit of file descriptors of this process, and its division.

    limit = the broker's own + files of logs + spare + connections

`spare` is for descriptors that are open for a moment: indexes, checkpoints, folders that are
synced, the pipes of a worker process.
"""

from __future__ import annotations

import os
import resource
from typing import Final, NamedTuple

UNLIMITED: Final = 1 << 20
"""Assumed when the limit is infinite; Linux allows no more either."""
FILES_MAX: Final = 1_000
SPARE_MAX: Final = 64


class DescriptorShares(NamedTuple):
    limit: int
    files: int
    """Log files that are kept open."""
    spare: int

    def connections(self, own_count: int) -> int:
        """The descriptors left for connections when the broker has `own_count` open; at least 1."""
        return max(1, self.limit - own_count - self.files - self.spare)


def share_out(limit: int) -> DescriptorShares:
    """Divide a limit: a quarter for files, at most 1,000; an eighth for spare, at most 64."""
    return DescriptorShares(
        limit, files=max(8, min(FILES_MAX, limit // 4)), spare=max(8, min(SPARE_MAX, limit // 8))
    )


def raise_descriptor_limit() -> int:
    """Raise the soft limit of this process to the hard one; the limit then in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return _number(soft)
    return _number(hard)


def open_descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd")) - 1


def _number(limit: int) -> int:
    return UNLIMITED if limit == resource.RLIM_INFINITY else limit
