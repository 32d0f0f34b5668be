"""The checks of this folder need a Docker engine, which `python -m tests.compose` gives them."""

from __future__ import annotations

import pytest

TIMEOUT_S = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the checks, which other runs leave out, and lengthen their time-out."""
    for item in items:
        if "tests/compose/" in item.path.as_posix():
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
