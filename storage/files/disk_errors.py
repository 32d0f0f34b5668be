"""Distinguishes a full disk, and a process that may open no more files, from a broken disk."""

from __future__ import annotations

import errno
from typing import Final

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)


def is_full(error: OSError) -> bool:
    """Whether a write failed only because the disk (or a quota, or the largest file) is full.

    Not for a failed fsync: the data that it was to make durable is lost, whatever the reason.
    """
    return error.errno in _FULL


def is_out_of_descriptors(error: OSError) -> bool:
    """Whether a file could not be opened because the process or the host has no descriptors left.

    The disk may be healthy, and only opening raises it: no write or fsync was tried.
    """
    return error.errno in _NO_DESCRIPTORS


def is_temporary(error: OSError) -> bool:
    """Whether the disk works and the same may succeed later; as `is_full`, not after an fsync."""
    return is_full(error) or is_out_of_descriptors(error)
