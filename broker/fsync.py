"""`odradek.fsync.enable=false`: nothing is synced, for a broker whose data are thrown away.

Only `odradek start --ephemeral` sets it, and refuses it otherwise.  What the process has written
outlives it, SIGKILL included; a crash of the machine may lose all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.settings.types import InvalidValueError

SETTING: Final = "odradek.fsync.enable"
VALUES: Final = {"true": True, "false": False}


def is_fsync_enabled(written: Mapping[str, str]) -> bool:
    """Whether files are synced; true when the setting is not set.

    written  settings as text
    raises   InvalidValueError
    """
    text = written.get(SETTING, "true").strip().lower()
    if text not in VALUES:
        raise InvalidValueError(SETTING, text, "Allowed: true, false")
    return VALUES[text]
