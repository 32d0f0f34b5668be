"""`python -m bench.plain_pipeline`: a pipeline file beside the same job in PySpark by hand.

The jobs take turns.  Their steps and the figures are those of `bench.pipeline`; both use a broker
of this project.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from bench import machine
from bench.pipeline import (
    CORES,
    OFFSETS_PER_TRIGGER,
    ROWS,
    Figures,
    Job,
    arguments_of,
    conditions,
    measure,
    table,
)
from bench.places import PROJECT, RESULTS, WORK
from bench.targets.odradek import Odradek
from tests.support import maven
from tests.support.prepare import SPARK_VERSION

PAGE: Final = PROJECT / "bench" / "PLAIN_PIPELINE.md"


class PlainJob(Job):
    """A run of `bench.plain_job`."""

    def command(self, file: Path, progress: Path, topic: str, mode: str, address: str) -> list[str]:
        """The words that run it, with the places of a pipeline file."""
        jars = str(maven.spark_connectors(SPARK_VERSION))
        run = [sys.executable, "-m", "bench.plain_job", address, topic, mode]
        state = str(file.parent / "state")
        return [*run, state, str(progress), jars, str(CORES), str(OFFSETS_PER_TRIGGER)]


JOBS: Final[dict[str, type[Job]]] = {"file": Job, "plain": PlainJob}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the page; with --quick only print."""
    parsed = arguments_of("bench.plain_pipeline", arguments)
    all_figures: list[Figures] = []
    target = Odradek(WORK / "pipeline-plain")
    try:
        for number in range(parsed.rounds):
            for key in list(JOBS)[:: 1 if number % 2 == 0 else -1]:
                all_figures.append(measure(target, parsed, number, key, JOBS[key]))
                print(all_figures[-1], flush=True)
    finally:
        target.close()
    lines = [
        "# A pipeline file beside the same job by hand",
        "",
        conditions("bench.plain_pipeline", parsed, machine.describe(PROJECT)),
        "",
        "Medians of the rounds, in which the jobs take turns on one broker; the ratio is the median"
        " of those within a round, above 1 where the file is better, with the least and greatest.",
        "",
        # What others took is unknown: the Java process by hand is not waited for.
        *table(all_figures, "file", ("pipeline file", "PySpark by hand"), ROWS[:-1]),
    ]
    page = "\n".join(lines) + "\n"
    print(page)
    if not parsed.quick:
        PAGE.write_text(page)
        rows = [asdict(figures) for figures in all_figures]
        (RESULTS / "plain_pipeline.json").write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
