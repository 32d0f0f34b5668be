"""The pause between two looks at a state that a test waits for."""

from __future__ import annotations

import threading
from typing import Final

PAUSE_S: Final = 0.01
_NEVER: Final = threading.Event()


def pause() -> None:
    """Leave the processor to the process whose state is looked at."""
    _NEVER.wait(PAUSE_S)
