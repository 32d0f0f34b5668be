"""Telling a full disk from a broken one."""

from __future__ import annotations

import errno
from typing import Final

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_full(error: OSError) -> bool:
    """Whether a write failed only because there was no room for it (or no permission for more).

    Not to be asked of a failed fsync: what it was to make durable is lost whatever the reason.
    """
    return error.errno in _FULL
