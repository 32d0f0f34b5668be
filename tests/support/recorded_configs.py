"""What Apache Kafka 3.9.2 said about settings (tests/golden/configs_3_9_2.json), and its settings
as ours."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.dynamic import DynamicSettings
from odradek.broker.settings.load import make_settings, with_dynamic

FILE = Path(__file__).parents[1] / "golden" / "configs_3_9_2.json"


@lru_cache(maxsize=1)
def recorded() -> dict[str, Any]:
    """The record; see tests/golden/record_configs.py for how it was made."""
    read: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return read


def recorded_settings(*, changed: bool = False) -> BrokerSettings:
    """The settings that the recorded broker was started with, or had after they were changed."""
    settings = make_settings(recorded()["settings"])
    if not changed:
        return settings
    dynamic = DynamicSettings(recorded()["dynamic_default"], recorded()["dynamic_broker"])
    return with_dynamic(settings, dynamic)
