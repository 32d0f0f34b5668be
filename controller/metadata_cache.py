"""This broker's newest image of the cluster; made before the parts that write it and read it.

Source: Kafka's MetadataCache.
"""

from __future__ import annotations

from odradek.controller.image import Image


class MetadataCache:
    """`image` is immutable and replaced as a whole; keep it for as long as one response takes."""

    __slots__ = ("image",)

    def __init__(self) -> None:
        self.image = Image()
