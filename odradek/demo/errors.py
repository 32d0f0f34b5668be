"""Why a demo cannot go on."""

from __future__ import annotations


class DemoError(Exception):
    """The cluster is not in a state that the demo can begin with; the message is one line."""
