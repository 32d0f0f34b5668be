"""`python -m tests.packaging.check_release FOLDER`: what must hold before an upload.

The wheel has one top-level name, its version is that of the CHANGELOG's newest entry, and the
command starts from an environment that holds the wheel alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from tests.packaging.bare_environment import make_environment
from tests.support.tool_cache import PROJECT

NEWEST_ENTRY: Final = re.compile(r"^## \[(\d[^\]]*)\]", re.M)


def top_level_names(wheel: Path) -> set[str]:
    """Files and folders that the wheel puts into site-packages, without its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name.split("/")[0] for name in archive.namelist() if ".dist-info/" not in name}


def newest_version(changelog: str) -> str | None:
    """The version of the newest entry; None while only `Unreleased` is there."""
    entry = NEWEST_ENTRY.search(changelog)
    return None if entry is None else entry[1]


def main(folder: Path) -> int:
    """Check the wheel in `folder`; prints the result."""
    (wheel,) = folder.glob("*.whl")
    version = wheel.name.split("-")[1]
    names = top_level_names(wheel)
    if names != {"odradek"}:
        print(f"the wheel has the top-level names {sorted(names)}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as temporary:
        command = make_environment(Path(temporary) / "environment", wheel) / "bin" / "odradek"
        subprocess.run([str(command), "--version"], check=True, cwd=temporary)
    released = newest_version((PROJECT / "CHANGELOG.md").read_text(encoding="utf-8"))
    if released != version:
        print(f"{wheel.name} is built; CHANGELOG.md has no entry for {version} yet")
    else:
        print(f"{wheel.name} is ready to be tagged and uploaded")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
