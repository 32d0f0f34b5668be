"""The folder of downloaded and built things that tests need: `.tools`, outside of git.

Everything in it is made by `build_once`: one maker at a time (a file lock), finished or not there
(built aside, then renamed), and made again when its fingerprint changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
TOOLS = PROJECT / ".tools"

FINGERPRINT = "fingerprint"
MAKE_TIMEOUT_S = 900


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Held by one process at a time; others wait.  The kernel releases it when the process ends."""
    TOOLS.mkdir(exist_ok=True)
    with open(TOOLS / f"{name}.lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def fingerprint(parts: Iterable[str | Path]) -> str:
    """A digest of strings and of the content of files."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part.encode()
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def build_once(target: Path, mark: str, make: Callable[[Path], None]) -> Path:
    """`target`, made by `make(empty folder)` unless it is there with the same `mark`."""
    marker = target / FINGERPRINT
    if marker.exists() and marker.read_text() == mark:
        return target
    with lock(str(target.relative_to(TOOLS)).replace("/", "-")):
        if marker.exists() and marker.read_text() == mark:
            return target
        aside = target.with_name(target.name + ".making")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        make(aside)
        (aside / FINGERPRINT).write_text(mark)
        shutil.rmtree(target, ignore_errors=True)
        aside.rename(target)
    return target


def run_tool(command: list[str], *, folder: Path, environment: dict[str, str] | None = None) -> str:
    """Run a build tool to its end and return what it printed; its output is in the error."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=MAKE_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout
