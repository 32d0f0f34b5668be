"""An hour of churn: what a broker keeps of clients that are gone must level off.

    python -m tests.attack.soak [--minutes 60] [--inspect REPORT [--trace]]

Verdict: none of resident memory, descriptors and threads grows in the second half by more than its
noise.  What a broker keeps by its settings for a day or a week (producer ids, offsets) is set to a
minute, so that it levels off within the first half.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from tests.attack.churn import Churn
from tests.support.broker_process import BrokerProcess

SAMPLE_S = 5.0
ROUNDS_PER_S = 20.0
GROWTH_MAX_BYTES = 1 << 20
"""Of memory in the second half, beyond twice its scatter."""
DESCRIPTORS_GROWTH_MAX = 5
SHORT_LIVED = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "10000",
    "producer.id.expiration.ms": "60000",
    "producer.id.expiration.check.interval.ms": "10000",
    "log.segment.delete.delay.ms": "5000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "log.retention.check.interval.ms": "10000",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """The broker at one moment."""

    at_s: float
    rss_bytes: int
    descriptors: int
    threads: int


@dataclass(frozen=True, slots=True)
class Trend:
    """A straight line through samples."""

    slope_per_s: float
    scatter: float
    """Root mean square of the distances from the line."""


def trend(points: Sequence[tuple[float, float]]) -> Trend:
    """Least squares."""
    middle_x, middle_y = fmean(x for x, _ in points), fmean(y for _, y in points)
    width = sum((x - middle_x) ** 2 for x, _ in points)
    slope = sum((x - middle_x) * (y - middle_y) for x, y in points) / width if width else 0.0
    residuals = [(y - middle_y - slope * (x - middle_x)) ** 2 for x, y in points]
    return Trend(slope, fmean(residuals) ** 0.5)


def growth(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """How much the line rises over the second half, and the scatter there."""
    half = list(points)[len(points) // 2 :]
    line = trend(half)
    return line.slope_per_s * (half[-1][0] - half[0][0]), line.scatter


def verdict(samples: Sequence[Sample]) -> list[str]:
    """What did not level off; nothing when all did."""
    bounds = {"rss_bytes": GROWTH_MAX_BYTES, "descriptors": DESCRIPTORS_GROWTH_MAX, "threads": 1}
    complaints = []
    for name, allowed in bounds.items():
        more, scatter = growth([(sample.at_s, getattr(sample, name)) for sample in samples])
        if more > allowed + 2 * scatter:
            complaints.append(
                f"{name} grew by {more:.0f} in the second half (scatter {scatter:.0f})"
            )
    return complaints


def sample(broker: BrokerProcess, at_s: float) -> Sample:
    """Look at the process."""
    process = broker.process
    threads = len(list(Path(f"/proc/{process.pid}/task").iterdir()))
    return Sample(at_s, process.rss_bytes(), process.open_files(), threads)


def run(
    broker: BrokerProcess, duration_s: float, *, rounds_per_s: float, trace: bool = True
) -> tuple[list[Sample], Churn]:
    """Churn for a while and sample meanwhile."""
    churn = Churn(broker.address)
    pause = threading.Event()
    samples: list[Sample] = []
    began = time.monotonic()
    due_s = 0.0
    while (now_s := time.monotonic() - began) < duration_s:
        if now_s >= due_s:
            due_s = now_s + SAMPLE_S
            samples.append(sample(broker, now_s))
            if trace:
                line = asdict(samples[-1]) | {"rounds": churn.rounds, "requests": churn.requests}
                print(json.dumps(line), flush=True)
        churn.run_round(int(time.time() * 1000))
        pause.wait(max(0.0, churn.rounds / rounds_per_s - (time.monotonic() - began)))
    return samples, churn


def main() -> int:
    """Run it; 1 when something grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rounds-per-s", type=float, default=ROUNDS_PER_S)
    parser.add_argument("--inspect", type=Path, help="write what the memory holds to this file")
    parser.add_argument("--trace", action="store_true", help="with the places of allocation")
    options = parser.parse_args()
    program: tuple[str, ...] = ("-I", "-m", "odradek")
    if options.inspect is not None:
        script = str(Path(__file__).with_name("inspected_broker.py"))
        program = ("-I", script, str(options.inspect.resolve()), "1" if options.trace else "0")
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        broker = BrokerProcess(Path(folder), overrides=SHORT_LIVED, program=program).start()
        try:
            samples, churn = run(broker, options.minutes * 60, rounds_per_s=options.rounds_per_s)
            broker.stop()
        finally:
            broker.close()
    complaints = verdict(samples)
    print(f"{churn.rounds} rounds, {churn.requests} requests in {options.minutes} minutes")
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
