"""The data directories of a cluster, checked offline when its brokers have ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPAIRED_BY_A_START = 1
TIMEOUT_S = 600.0


def assert_undamaged(folder: Path) -> None:
    """Check `broker-*/data*` below `folder`; what a start repairs without loss is no damage."""
    directories = sorted(folder.glob("broker-*/data*"))
    assert directories, folder
    for directory in directories:
        done = subprocess.run(
            [sys.executable, "-m", "odradek", "check-log-dirs", str(directory)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode <= REPAIRED_BY_A_START, (
            f"check-log-dirs of {directory} ended with {done.returncode}:\n"
            f"{done.stderr}{done.stdout}"
        )
