"""`python -m bench.pipeline`: one pipeline file against Odradek and Apache Kafka, in turns.

The job reads JSON records, counts and sums them in windows of ten seconds per key, and writes each
change to a topic of the same broker: source -> parse -> window -> Kafka sink, Spark on two cores.

start    s from the command line to the first batch that is done, one record waiting
backlog  rows/s of `availableNow` over records that lie there: all batches, without the start
delay    ms from the newest record of a window to its last count in the sink, at a steady rate
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from bench import machine
from bench.places import PROJECT, RESULTS, WORK
from bench.targets.apache import ApacheWithZooKeeper
from bench.targets.odradek import Odradek
from bench.targets.target import Target
from tests.support import maven
from tests.support.prepare import SPARK_VERSION

PARTITIONS: Final = 2
KEYS: Final = 100
CORES: Final = 2
TIMEOUT_S: Final = 1_800.0
READ_TIMEOUT_S: Final = 60.0
OFFSETS_PER_TRIGGER: Final = 500_000
PAGE: Final = PROJECT / "bench" / "PIPELINE.md"
SINKS_HEADING: Final = "# One read for several sinks"
"""The section of the page that `bench.pipeline_sinks` writes."""
TARGETS: Final[dict[str, type[Target]]] = {"odradek": Odradek, "apache39": ApacheWithZooKeeper}

READING: Final = """\

[pipeline.spark]
"spark.driver.memory" = "2g"
"spark.sql.shuffle.partitions" = 2

[clusters.main]
bootstrap_servers = "{address}"

[sources.records]
kind = "kafka"
cluster = "main"
subscribe = ["{topic}"]
max_offsets_per_trigger = {limit}

[steps.parsed]
kind = "parse"
from = "records"
format = "json"
schema = "key INT, amount DOUBLE, sent_ms BIGINT"
"""
"""What every measured file does with the topic."""
FILE: Final = f"""\
[pipeline]
name = "measured"
checkpoint = "state"
mode = "{{mode}}"
{READING}
[steps.timed]
kind = "map"
from = "parsed"
columns = {{{{ at = "timestamp_millis(sent_ms)" }}}}

[steps.counted]
kind = "window"
from = "timed"
time = "at"
watermark = "1 minute"
length = "10 seconds"
group_by = ["key"]
aggregates = {{{{ records = "count(*)", total = "sum(amount)", newest_ms = "max(sent_ms)" }}}}

[sinks.out]
kind = "kafka"
from = "counted"
cluster = "main"
topic = "{{topic}}-out"
key = "key"
output_mode = "update"
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """One round of one broker."""

    target: str
    start_s: float
    backlog_rows: int
    backlog_rows_per_second: float
    delay_p50_ms: float
    delay_p95_ms: float
    others: float
    """Share of the machine that neighbours took (0 to 1); 1 and more: nothing is known."""


class Job:
    """A run of the file in a folder of its own."""

    def __init__(self, target: Target, folder: Path, topic: str, mode: str) -> None:
        folder.mkdir(parents=True)
        self._progress = folder / "progress.jsonl"
        self._log = folder / "job.log"
        file = folder / "measured.toml"
        limit = OFFSETS_PER_TRIGGER
        address = target.bootstrap
        file.write_text(FILE.format(mode=mode, address=address, topic=topic, limit=limit))
        command = self.command(file, self._progress, topic, mode, address)
        self.begin_ms = time.time() * 1_000
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def command(self, file: Path, progress: Path, topic: str, mode: str, address: str) -> list[str]:
        """What runs the job.

        progress  the file to which it appends a line of JSON for each batch
        """
        jars = str(maven.spark_connectors(SPARK_VERSION))
        run = [sys.executable, "-m", "odradek.pipeline.cli", "run", str(file), "--jars", jars]
        return [*run, "--master", f"local[{CORES}]", "--progress-file", str(progress)]

    def batches(self) -> list[dict[str, float]]:
        """Lines of the progress file that tell of a batch with rows."""
        if not self._progress.exists():
            return []
        lines = [json.loads(line) for line in self._progress.read_text().splitlines()]
        return [line for line in lines if line["state"] == "running" and line["rows"] > 0]

    def await_rows(self, rows: int) -> list[dict[str, float]]:
        """Until so many have been read."""
        end_s = time.monotonic() + TIMEOUT_S
        while True:
            batches = self.batches()
            if batches and batches[-1]["rows_total"] >= rows:
                return batches
            if self._process.poll() is not None or time.monotonic() > end_s:
                raise SystemExit(f"the job read {batches[-1:]} of {rows} rows: see {self._log}")
            time.sleep(0.05)

    def wait(self) -> list[dict[str, float]]:
        """Until it ends by itself."""
        if self._process.wait(TIMEOUT_S) != 0:
            raise SystemExit(f"the job failed: see {self._log}")
        return self.batches()

    def stop(self) -> None:
        """SIGTERM."""
        self._process.terminate()
        self._process.wait(READ_TIMEOUT_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the page; with --quick only print."""
    parsed = arguments_of("bench.pipeline", arguments)
    figures: list[Figures] = []
    targets = {key: made(WORK / f"pipeline-{key}") for key, made in TARGETS.items()}
    try:
        for number in range(parsed.rounds):
            # In turns, each round beginning with another one.
            keys = list(targets)[:: 1 if number % 2 == 0 else -1]
            for key in keys:
                figures.append(measure(targets[key], parsed, number, key))
                print(figures[-1], flush=True)
    finally:
        for target in targets.values():
            target.close()
    page = render(figures, parsed, machine.describe(PROJECT))
    print(page)
    if not parsed.quick:
        sinks = "".join(PAGE.read_text().partition(SINKS_HEADING)[1:])
        PAGE.write_text(f"{page}\n{sinks}" if sinks else page)
        RESULTS.mkdir(exist_ok=True)
        rows = [asdict(figures_of_run) for figures_of_run in figures]
        (RESULTS / "pipeline.json").write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def arguments_of(module: str, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line of a measurement."""
    parser = argparse.ArgumentParser(prog=module)
    parser.add_argument("--records", type=int, default=5_000_000, help="of the backlog")
    parser.add_argument("--rate", type=int, default=5_000, help="records per second, for the delay")
    parser.add_argument("--seconds", type=int, default=60, help="how long the steady rate lasts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="do not write the page")
    return parser.parse_args(arguments)


def measure(
    target: Target, parsed: argparse.Namespace, number: int, row: str, job: type[Job] = Job
) -> Figures:
    """One round of one broker, on an empty directory.

    row  its name in the table
    """
    target.wipe()
    target.directory.mkdir(parents=True)
    target.start()
    folder = target.directory / f"jobs-{number}"
    try:
        for topic in ("start", "backlog", "steady"):
            for name in (topic, f"{topic}-out"):
                target.create_topic(name, PARTITIONS)
        send(target.bootstrap, "backlog", parsed.records)
        send(target.bootstrap, "start", 1)
        before = machine.Busy.now()
        used_s = os.times().children_user + os.times().children_system
        start_s = measure_start(target, folder / "start", job)
        batches = job(target, folder / "backlog", "backlog", "available_now").wait()
        p50_ms, p95_ms = measure_delay(target, folder / "steady", parsed, job)
        ours_s = os.times().children_user + os.times().children_system - used_s
        others = machine.foreign_share(before, machine.Busy.now(), ours_s)
    finally:
        target.stop()
    rows = int(sum(batch["rows"] for batch in batches))
    if rows != parsed.records:
        raise SystemExit(f"{target.key}: {rows} of {parsed.records} rows were read")
    per_second = rows / sum(batch["batch_ms"] for batch in batches) * 1_000
    return Figures(row, start_s, rows, per_second, p50_ms, p95_ms, others)


def measure_start(target: Target, folder: Path, kind: type[Job]) -> float:
    """Seconds until the first record has been worked on."""
    job = kind(target, folder, "start", "stream")
    try:
        (first, *_) = job.await_rows(1)
    finally:
        job.stop()
    return (first["at_ms"] - job.begin_ms) / 1_000


def measure_delay(
    target: Target, folder: Path, parsed: argparse.Namespace, kind: type[Job]
) -> tuple[float, float]:
    """Median and 95th percentile of the windows after the first third, while all is warm."""
    job = kind(target, folder, "steady", "stream")
    try:
        send(target.bootstrap, "steady", KEYS)
        job.await_rows(KEYS)
        count = parsed.rate * parsed.seconds
        send(target.bootstrap, "steady", count, rate=parsed.rate)
        job.await_rows(KEYS + count)
    finally:
        job.stop()
    last: dict[tuple[str, int], float] = {}
    newest: dict[tuple[str, int], int] = {}
    for value, at_ms in read(target.bootstrap, "steady-out"):
        row = json.loads(value)
        window = (row["window_start"], row["key"])
        if row["newest_ms"] >= newest.get(window, 0):
            newest[window] = row["newest_ms"]
            last[window] = min(at_ms - row["newest_ms"], last.get(window, float("inf")))
    windows = sorted(last)
    delays = sorted(last[window] for window in windows[len(windows) // 3 :])
    return statistics.median(delays), delays[int(len(delays) * 0.95)]


def send(address: str, topic: str, count: int, *, rate: int | None = None) -> None:
    """Records, spread over keys and partitions; all acknowledged."""
    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": 20 if rate is None else 2}
        | {"queue.buffering.max.messages": 200_000, "batch.size": 500_000}
    )
    begin_s = time.monotonic()
    sent_ms = int(time.time() * 1_000)
    for number in range(count):
        if number % 100 == 0:
            if rate is not None:
                time.sleep(max(begin_s + number / rate - time.monotonic(), 0))
            sent_ms = int(time.time() * 1_000)
            producer.poll(0)
        value = b'{"key": %d, "amount": 2.5, "sent_ms": %d}' % (number % KEYS, sent_ms)
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(TIMEOUT_S) != 0:
        raise SystemExit(f"not all records of {topic} were acknowledged")


def read(address: str, topic: str) -> list[tuple[bytes, int]]:
    """Value and timestamp of all records."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench"})
    try:
        places = [
            TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)
        ]
        ends = [consumer.get_watermark_offsets(place, READ_TIMEOUT_S)[1] for place in places]
        consumer.assign(places)
        records: list[tuple[bytes, int]] = []
        while len(records) < sum(ends):
            some = consumer.consume(10_000, READ_TIMEOUT_S)
            if not some:
                raise SystemExit(f"{len(records)} of {ends} records of {topic} were read")
            for message in some:
                if message.error() is not None:
                    raise KafkaException(message.error())
                records.append((message.value() or b"", message.timestamp()[1]))
        return records
    finally:
        consumer.close()


ROWS: Final = (
    ("start_s", "start of the job, s", "{:.1f}", True),
    ("backlog_rows_per_second", "backlog, rows/s", "{:,.0f}", False),
    ("delay_p50_ms", "delay p50, ms", "{:,.0f}", True),
    ("delay_p95_ms", "delay p95, ms", "{:,.0f}", True),
    ("others", "share of the machine that others took", "{:.0%}", True),
)


def render(
    all_figures: Sequence[Figures], parsed: argparse.Namespace, facts: dict[str, str]
) -> str:
    """The page: medians, and the ratio within each round (above 1: Odradek is better)."""
    return "\n".join(
        [
            "# One pipeline beside two brokers",
            "",
            conditions("bench.pipeline", parsed, facts),
            "",
            "Source -> parse -> window of 10 s per key -> Kafka sink. Medians of the rounds, in"
            " which the brokers take turns; the ratio is the median of those within a round, above"
            " 1 where Odradek is better, with the least and the greatest.",
            "",
            *table(all_figures, "odradek", ("Odradek", "Apache Kafka 3.9.2")),
            "",
        ]
    )


def conditions(module: str, parsed: argparse.Namespace, facts: dict[str, str]) -> str:
    """The command, the day and the machine."""
    return (
        f"`python -m {module} --records {parsed.records} --rate {parsed.rate}"
        f" --seconds {parsed.seconds} --rounds {parsed.rounds}`;"
        f" {time.strftime('%Y-%m-%d', time.gmtime())}; "
        + ", ".join(f"{name}: {value}" for name, value in facts.items())
        + f"; Spark {SPARK_VERSION}, local[{CORES}], broker, job and load on the same cores."
    )


def table(
    all_figures: Sequence[Figures],
    first: str,
    labels: tuple[str, str],
    rows: Sequence[tuple[str, str, str, bool]] = ROWS,
) -> list[str]:
    """Medians of the rows named `first` and of the others, and their ratios."""
    ours = [figures for figures in all_figures if figures.target == first]
    theirs = [figures for figures in all_figures if figures.target != first]
    lines = [f"| | {labels[0]} | {labels[1]} | ratio |", "|---|---|---|---|"]
    for name, label, form, is_less_better in rows:
        mine = [getattr(figures, name) for figures in ours]
        other = [getattr(figures, name) for figures in theirs]
        ratio = ""
        if name != "others":
            pairs = [(b, a) if is_less_better else (a, b) for a, b in zip(mine, other, strict=True)]
            ratios = [a / b for a, b in pairs]
            ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        cells = (form.format(statistics.median(mine)), form.format(statistics.median(other)))
        lines.append(f"| {label} | {cells[0]} | {cells[1]} | {ratio} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
