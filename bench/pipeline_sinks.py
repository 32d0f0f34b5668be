"""`python -m bench.pipeline_sinks`: CPU seconds of one sink, and of three with one query or three.

The job reads JSON records of one topic, parses them, and writes them with `availableNow`, Spark on
two cores.  CPU seconds are those of the job's processes, Python and Java, with start and end.

all    three folders of Parquet files with all rows
some   Parquet files with all rows; files with a tenth of them; a Kafka topic with a hundredth
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench import machine
from bench.pipeline import CORES, PAGE, PARTITIONS, READING, SINKS_HEADING, send
from bench.places import PROJECT, WORK
from bench.targets.odradek import Odradek
from tests.support import maven
from tests.support.prepare import SPARK_VERSION

OFFSETS_PER_TRIGGER: Final = 250_000
HEAD: Final = f"""\
[pipeline]
name = "measured"
checkpoint = "state"
mode = "available_now"
queries = "{{queries}}"
{READING}
[steps.tenth]
kind = "filter"
from = "parsed"
where = "key % 10 = 0"

[steps.hundredth]
kind = "filter"
from = "parsed"
where = "key = 1"
"""
FILES: Final = """\
[sinks.{name}]
kind = "files"
from = "{view}"
path = "{name}"
format = "parquet"
"""
TOPIC: Final = """\
[sinks.{name}]
kind = "kafka"
from = "{view}"
cluster = "main"
topic = "backlog-out"
"""
ONE: Final = FILES.format(name="a", view="parsed")
SINKS: Final = {
    "one": ONE,
    "all": ONE + "".join(FILES.format(name=name, view="parsed") for name in ("b", "c")),
    "some": ONE + FILES.format(name="b", view="tenth") + TOPIC.format(name="c", view="hundredth"),
}
ROWS: Final = (
    ("one", "per_sink", "one sink"),
    ("all", "per_sink", "three sinks with all rows, a query each"),
    ("all", "shared", "three sinks with all rows, one query"),
    ("some", "per_sink", "three sinks with all, a tenth, a hundredth, a query each"),
    ("some", "shared", "three sinks with all, a tenth, a hundredth, one query"),
)


def cpu_seconds(address: str, folder: Path, topic: str, sinks: str, queries: str) -> float:
    """CPU seconds of a job that reads a topic to its end, over all its processes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file = folder / "measured.toml"
    head = HEAD.format(queries=queries, address=address, topic=topic, limit=OFFSETS_PER_TRIGGER)
    file.write_text(head + SINKS[sinks])
    jars = str(maven.spark_connectors(SPARK_VERSION))
    command = [sys.executable, "-m", "odradek.pipeline.cli", "run", str(file), "--jars", jars]
    with (folder / "job.log").open("wb") as log:
        job = subprocess.Popen(
            [*command, "--master", f"local[{CORES}]"],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    _, status, used = os.wait4(job.pid, 0)
    job.returncode = os.waitstatus_to_exitcode(status)
    if job.returncode != 0:
        raise SystemExit(f"the job failed: see {folder / 'job.log'}")
    return used.ru_utime + used.ru_stime


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the section of the page; with --quick only print."""
    parser = argparse.ArgumentParser(prog="bench.pipeline_sinks")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="do not write the page")
    parsed = parser.parse_args(arguments)
    target = Odradek(WORK / "pipeline-sinks")
    target.wipe()
    target.directory.mkdir(parents=True)
    target.start()
    seconds_by_row: dict[tuple[str, str], list[float]] = {}
    starts: list[float] = []
    try:
        for topic in ("start", "backlog", "backlog-out"):
            target.create_topic(topic, PARTITIONS)
        send(target.bootstrap, "start", 1)
        send(target.bootstrap, "backlog", parsed.records)
        folder = target.directory / "job"
        for _ in range(parsed.rounds):
            starts.append(cpu_seconds(target.bootstrap, folder, "start", "one", "per_sink"))
            for sinks, queries, _label in ROWS:
                used_s = cpu_seconds(target.bootstrap, folder, "backlog", sinks, queries)
                seconds_by_row.setdefault((sinks, queries), []).append(used_s)
                print(f"{sinks} {queries}: {used_s:.1f} s", flush=True)
    finally:
        target.stop()
        target.close()
    section = render(seconds_by_row, starts, parsed)
    print(section)
    if not parsed.quick:
        PAGE.write_text(PAGE.read_text().partition(SINKS_HEADING)[0].rstrip() + "\n\n" + section)
    return 0


def render(
    seconds_by_row: dict[tuple[str, str], list[float]],
    starts: list[float],
    parsed: argparse.Namespace,
) -> str:
    """The section of the page: medians, and ratios to one sink, with and without the start."""
    facts = ", ".join(f"{name}: {value}" for name, value in machine.describe(PROJECT).items())
    start_s = statistics.median(starts)
    one_s = statistics.median(seconds_by_row[ROWS[0][:2]])
    lines = [
        SINKS_HEADING,
        "",
        f"`python -m bench.pipeline_sinks --records {parsed.records} --rounds {parsed.rounds}`;"
        f" {time.strftime('%Y-%m-%d', time.gmtime())}; {facts}; Spark {SPARK_VERSION},"
        f" local[{CORES}].",
        "",
        "Source -> parse -> sinks, over the same backlog; the ways take turns. CPU seconds of the"
        f" job's processes, medians of the rounds. A job with one record uses {start_s:.1f} s,"
        " which the last column leaves out.",
        "",
        "| | CPU, s | of one sink | without the start |",
        "|---|---|---|---|",
    ]
    for sinks, queries, label in ROWS:
        used_s = statistics.median(seconds_by_row[sinks, queries])
        net = (used_s - start_s) / (one_s - start_s)
        lines.append(f"| {label} | {used_s:.1f} | {used_s / one_s:.2f} | {net:.2f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
