"""No collection of garbage: a million nodes of syntax trees stay until the end.

Each full collection would look at all of them, which takes half of the time of these tests.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _without_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()
