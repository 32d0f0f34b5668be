"""The settings in force while a broker runs, for the parts that keep a reference to them."""

from __future__ import annotations

from odradek.broker.settings.broker_settings import BrokerSettings


class CurrentSettings:
    """`value` is replaced as a whole when a dynamic setting changes (KIP-226).

    A part that keeps this object sees the change at its next look; a part that keeps the value
    has the settings of the start.
    """

    __slots__ = ("value",)

    def __init__(self, value: BrokerSettings) -> None:
        self.value = value
