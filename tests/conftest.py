"""Settings that every test shares."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The same examples on every run, and no verdict by the clock: the machines are shared.
settings.register_profile(
    "repository", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repository")
