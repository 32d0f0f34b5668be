"""Settings that every test shares."""

from __future__ import annotations

import gc

from hypothesis import HealthCheck, settings

# The same examples on every run, and no verdict by the clock: the machines are shared.
settings.register_profile(
    "repository",
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# Others in each run (`make campaign-properties`).
settings.register_profile(
    "campaign", settings.get_profile("repository"), max_examples=1_000, derandomize=False
)
# Under a tracer, where lines count and not cases (`make coverage`).
settings.register_profile("coverage", settings.get_profile("repository"), max_examples=10)
settings.load_profile("repository")


def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of later collections of garbage.

    They are a million objects that stay until the end; a full collection looked at them for 0.6 s.
    """
    gc.collect()
    gc.freeze()
