"""Damage to stored files."""

from __future__ import annotations

from odradek.runtime.files import File


def overwrite(file: File, position: int, data: bytes | bytearray) -> None:
    """Replace the bytes from `position` on; those after them stay."""
    rest = file.read_at(position + len(data), file.size())
    file.truncate(position)
    file.append([data, rest])
