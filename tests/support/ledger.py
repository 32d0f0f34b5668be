"""The ledgers of campaigns: a line of JSON for each run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path


def append(ledger: Path, line: Mapping[str, object]) -> None:
    """Show a line and add it to its ledger."""
    text = json.dumps(line)
    print(text, flush=True)
    with ledger.open("a") as file:
        file.write(text + "\n")


def commit() -> str:
    """The commit that is checked out; with a + when files differ from it."""
    described = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    return subprocess.run(described, check=True, capture_output=True, text=True).stdout.strip()
