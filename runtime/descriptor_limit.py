"""How many descriptors this process may have, and who gets them.

    limit = the broker's own + files of logs + spare + connections

`spare` is what is opened for a moment: indexes, checkpoints, a folder to be synced, mapped windows,
the pipes of a worker process.
"""

from __future__ import annotations

import os
import resource
from typing import Final, NamedTuple

UNLIMITED: Final = 1 << 20
"""Assumed when the host names no limit; Linux allows no more either."""
FILES_MAX: Final = 1_000
SPARE_MAX: Final = 64


class DescriptorShares(NamedTuple):
    """What a limit is divided into."""

    limit: int
    files: int
    """Files of logs that are kept open."""
    spare: int

    def connections(self, own_count: int) -> int:
        """What is left for connections when the broker itself has `own_count` open; at least 1."""
        return max(1, self.limit - own_count - self.files - self.spare)


def share_out(limit: int) -> DescriptorShares:
    """Divide a limit: a quarter for files and an eighth for spare, as far as these are of use."""
    return DescriptorShares(
        limit, files=max(8, min(FILES_MAX, limit // 4)), spare=max(8, min(SPARE_MAX, limit // 8))
    )


def raise_descriptor_limit() -> int:
    """Raise the soft limit of this process to the hard one; returns what is in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return _number(soft)
    return _number(hard)


def open_descriptors() -> int:
    """How many are open now."""
    return len(os.listdir("/proc/self/fd")) - 1


def _number(limit: int) -> int:
    return UNLIMITED if limit == resource.RLIM_INFINITY else limit
