"""The data directories of a cluster, checked offline when its brokers have ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPAIRED_BY_A_START = 1
TIMEOUT_S = 600.0


def damage_in(folder: Path) -> str | None:
    """Check `broker-*/data*` below `folder`, all directories of a broker at once.

    returns  what was found; None when it is nothing, or what a start repairs without loss
    """
    brokers = sorted({directory.parent for directory in folder.glob("broker-*/data*")})
    assert brokers, folder
    for broker in brokers:
        done = subprocess.run(
            [sys.executable, "-m", "odradek", "check-log-dirs", *sorted(broker.glob("data*"))],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode > REPAIRED_BY_A_START:
            code = done.returncode
            return f"check-log-dirs of {broker} ended with {code}:\n{done.stderr}{done.stdout}"
    return None


def assert_undamaged(folder: Path) -> None:
    """`damage_in` a folder is none."""
    damage = damage_in(folder)
    assert damage is None, damage
