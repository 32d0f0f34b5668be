"""pytest in a folder outside of the repository, as a user of the plugin runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parent / "project"
PASSED: Final = "13 passed"
"""What pytest prints of the sample project."""
RUN_TIMEOUT_S: Final = 500.0


def copy_project(folder: Path) -> None:
    """The sample project, whose files end with .txt in the repository."""
    for source in PROJECT.rglob("*.txt"):
        target = folder / source.relative_to(PROJECT).with_suffix("")
        target.parent.mkdir(exist_ok=True)
        target.write_text(source.read_text())


def run_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """pytest in `folder`; the temporary files of its brokers are in `folder / "tmp"`."""
    (folder / "tmp").mkdir()
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers -p no:randomly\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if "PYTEST" not in name},
            "TMPDIR": str(folder / "tmp"),
        },
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )


def left_by_brokers(folder: Path) -> list[Path]:
    return list((folder / "tmp").glob("odradek-*"))
