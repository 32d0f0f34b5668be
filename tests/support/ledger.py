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
    """The commit that is checked out; with a + when files other than ledgers differ from it."""
    head = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude)*.jsonl")
    return f"{head}+" if changed else head


def _git(*words: str) -> str:
    result = subprocess.run(["git", *words], check=True, capture_output=True, text=True)
    return result.stdout.strip()
