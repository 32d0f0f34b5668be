"""Bugs that are planted, each under the name of the function that patches it in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Bug = Callable[[pytest.MonkeyPatch], None]


class Bugs(dict[str, Bug]):
    """By name."""

    def add(self, function: Bug) -> Bug:
        """A decorator that registers a bug."""
        self[function.__name__] = function
        return function
