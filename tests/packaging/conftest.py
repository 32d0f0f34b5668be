"""The distributions of this tree, built once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tool_cache import PROJECT

BUILD_TIMEOUT_S = 180.0


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution and the wheel that was built from it."""
    source = tmp_path_factory.mktemp("source")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=PROJECT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (PROJECT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, source / name, follow_symlinks=False)
    folder = tmp_path_factory.mktemp("dist")
    # Without isolation: the build back end of the tests' own environment, and no network.
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)],
        check=True,
        capture_output=True,
        timeout=BUILD_TIMEOUT_S,
    )
    return folder


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    """The wheel's file."""
    (wheel,) = built.glob("*.whl")
    return wheel
