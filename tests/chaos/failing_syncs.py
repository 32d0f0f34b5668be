"""fsync errors of one log directory, on demand: a library that is preloaded into a broker."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from tests.support import tool_cache

SOURCE: Final = Path(__file__).with_suffix(".c")
FLAGS: Final = ("-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")


def library() -> Path:
    """The library, compiled at its first use."""

    def make(folder: Path) -> None:
        tool_cache.run_tool(
            ["gcc", *FLAGS, "-o", str(folder / "failing_syncs.so"), str(SOURCE)], folder=folder
        )

    mark = tool_cache.fingerprint([SOURCE, *FLAGS])
    target = tool_cache.TOOLS / "programs" / "failing-syncs"
    return tool_cache.build_once(target, mark, make) / "failing_syncs.so"


class FailingSyncs:
    """Those of one broker, over several runs of its process."""

    def __init__(self, folder: Path) -> None:
        self._control = folder.absolute() / "failing-syncs"
        self._calls = self._control.with_name(self._control.name + ".calls")

    @property
    def prefix(self) -> tuple[str, ...]:
        """The words before the command of the broker."""
        return ("env", f"LD_PRELOAD={library()}", f"FAILING_SYNCS={self._control}")

    def begin(self, directory: Path) -> None:
        """Let every fsync below a directory fail from now on."""
        self._calls.unlink(missing_ok=True)
        self.turn_to(directory)

    def turn_to(self, directory: Path) -> None:
        """Let those below another directory fail; the calls so far are not forgotten."""
        aside = self._control.with_suffix(".new")
        aside.write_text(str(directory.absolute()))
        aside.rename(self._control)

    def end(self) -> None:
        """Let fsync succeed."""
        self._control.unlink()

    def failed(self) -> int:
        """How many calls have failed since `begin`."""
        return sum(line.split(" ", 2)[1] == "failed" for line in self._lines())

    def repeated(self) -> list[str]:
        """Files that a process has synced again after the first call for them had failed.

        What was written before a failed fsync may be lost although the next one succeeds.
        """
        calls = Counter((line.split(" ", 2)[0], line.split(" ", 2)[2]) for line in self._lines())
        return sorted(path for (_, path), count in calls.items() if count > 1)

    def _lines(self) -> list[str]:
        return self._calls.read_text().splitlines() if self._calls.exists() else []
