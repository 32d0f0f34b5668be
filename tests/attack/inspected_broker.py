"""A broker that writes down, once a minute, what its memory holds.

    python -m tests.attack.inspected_broker REPORT TRACE start [ARGUMENT...]

REPORT is a file that gets one JSON line a minute: objects by type that the collector knows of, and
with TRACE=1 the greatest places of allocation (which costs a good half of the speed).
"""

from __future__ import annotations

import gc
import json
import sys
import threading
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

PERIOD_S = 60.0
LISTED = 60


def report(*, is_traced: bool) -> dict[str, Any]:
    """What is there now."""
    gc.collect()
    counts = Counter(
        f"{type(instance).__module__}.{type(instance).__qualname__}"
        for instance in gc.get_objects()
    )
    figures: dict[str, Any] = {
        "rss_pages": int(Path("/proc/self/statm").read_text().split()[1]),
        "objects": sum(counts.values()),
        "blocks": sys.getallocatedblocks(),
        "types": dict(counts.most_common(LISTED)),
    }
    if is_traced:
        statistics = tracemalloc.take_snapshot().statistics("lineno")
        figures["traced_bytes"] = sum(statistic.size for statistic in statistics)
        figures["places"] = {
            str(statistic.traceback): statistic.size for statistic in statistics[:LISTED]
        }
    return figures


def watch(path: Path, *, is_traced: bool) -> None:
    """Append a line each period, until the process ends."""
    pause = threading.Event()
    while not pause.wait(PERIOD_S):
        with path.open("a") as file:
            file.write(json.dumps(report(is_traced=is_traced)) + "\n")


def main() -> int:
    """Start the broker with a watch beside it."""
    path, is_traced = Path(sys.argv[1]), sys.argv[2] == "1"
    if is_traced:
        tracemalloc.start()
    threading.Thread(
        target=watch, args=(path,), kwargs={"is_traced": is_traced}, daemon=True
    ).start()
    from odradek.command import main as command

    return command(sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
