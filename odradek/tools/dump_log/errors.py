"""The error that ends `odradek dump-log`, as an uncaught exception ends Apache Kafka's tool."""

from __future__ import annotations

from odradek.tools.errors import ToolError


class DumpError(ToolError):
    """A file cannot be dumped any further; `str` of the error is the text of Kafka's exception."""
