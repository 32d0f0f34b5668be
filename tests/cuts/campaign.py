"""A cut at every operation of every protocol, in every variant.

python -m tests.cuts.campaign [SEEDS [PROTOCOL...]]    prints the table of README.md
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.cuts.nodes import NODE_PROTOCOLS
from tests.cuts.protocols import LOG_PROTOCOLS, Play, Played
from tests.cuts.scene import Cut
from tests.cuts.variants import KILLED_WITHIN, VARIANTS, files_after

PROTOCOLS: Final[dict[str, Play]] = {**LOG_PROTOCOLS, **NODE_PROTOCOLS}
THOROUGH_EACH: Final = 7
"""`check-log-dirs` looks at the cuts of each seventh operation: it takes longer than a start."""


@dataclass
class Row:
    """What was found of a protocol, in all seeds."""

    operations: int = 0
    cuts: int = 0
    """Times that a disk was cut and started on."""
    failures: list[str] = field(default_factory=list)


def failure_of(played: Played, cut: Cut, variant: str, seed: int, *, is_thorough: bool) -> str:
    """Cut, start and check: which promise is broken, "" when none is."""
    files = files_after(cut, variant, seed)
    if files is None:
        return ""
    try:
        played.check(files, cut.promises, is_thorough)
    except Exception:  # noqa: BLE001 - whatever a start or a check raises
        where = f"seed {seed}, operation {cut.number}: {cut.what} {cut.path}, {variant}"
        return f"{where}\n{traceback.format_exc(limit=-2)}"
    return ""


def run(name: str, seeds: Iterable[int]) -> Row:
    """All cuts of a protocol."""
    row = Row()
    for seed in seeds:
        played = PROTOCOLS[name](seed, range(1 << 30))
        row.operations += played.recorder.count - 1
        for cut in played.recorder.cuts:
            is_thorough = cut.number % THOROUGH_EACH == seed % THOROUGH_EACH
            for variant in (*VARIANTS, KILLED_WITHIN):
                if variant == KILLED_WITHIN and cut.torn_write is None:
                    continue
                row.cuts += 1
                failure = failure_of(played, cut, variant, seed, is_thorough=is_thorough)
                if failure:
                    row.failures.append(failure)
    return row


def main() -> None:
    """Print a line for each protocol, and the first failures; exit with 1 when there are some."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    failed = False
    print("| protocol | seeds | operations | cuts | broken promises | processor time (s) |")
    print("|---|---|---|---|---|---|")
    for name in sys.argv[2:] or PROTOCOLS:
        began = time.process_time()
        row = run(name, range(seeds))
        seconds = time.process_time() - began
        print(
            f"| {name} | {seeds} | {row.operations} | {row.cuts} | {len(row.failures)} | "
            f"{seconds:.0f} |",
            flush=True,
        )
        for failure in row.failures[:3]:
            print(failure, flush=True)
        failed = failed or bool(row.failures)
    sys.exit(failed)


if __name__ == "__main__":
    main()
