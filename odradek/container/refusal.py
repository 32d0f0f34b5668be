"""What in an environment does not allow a start."""

from __future__ import annotations

from odradek.broker.settings.types import SettingsError


class EnvironmentRefused(SettingsError):
    """A variable that a broker must not start with; the text is one line."""

    def __init__(self, variable: str, setting: str, allowed: str) -> None:
        """allowed  what may be written instead; it does not show a secret"""
        super().__init__(f"{variable} cannot be taken for {setting}: {allowed}")
        self.variable = variable
