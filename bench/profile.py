"""Where the broker's time goes while a row is measured: python -m bench.profile --row ROW.

py-spy samples the running broker from outside, by line.  Printed are the lines where time is spent
and the functions that are on the stack; the raw stacks stay in build/bench/profile for flame graph
tools.  With --perf, Linux perf does it by library and symbol, which shows kernel and interpreter.
For the row `start` the imports are timed instead.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import clients
from bench.places import BUILD, PROJECT, WORK
from bench.rows import catalog as rows
from bench.rows.row import Row
from bench.targets import catalog as targets
from bench.targets.target import Target

PROFILES = BUILD / "profile"
IMPORTS = "; ".join(
    f"import {name}"
    for name in (
        "odradek.broker.node.node",
        "odradek.broker.settings.broker_settings",
        "odradek.runtime.logging",
    )
)
IMPORTS_SHOWN = 40
IDLE = "_worker ("
"""A thread of an executor that waits for work; py-spy takes it for busy now and then."""


def _spy(target: Target, file: Path, form: str, arguments: argparse.Namespace) -> list[str]:
    command = [str(Path(sys.executable).parent / "py-spy"), "record", "--pid", str(target.pid)]
    command += ["--format", form, "--output", str(file), "--rate", str(arguments.rate)]
    command += ["--duration", "3600", "--full-filenames"]
    return command + (["--native"] if arguments.native else [])


def _perf(target: Target, file: Path, arguments: argparse.Namespace) -> list[str]:
    rate = str(arguments.rate * 4)
    return ["perf", "record", "-q", "-F", rate, "-p", str(target.pid), "-o", str(file)]


@contextmanager
def _sampling(command: list[str]) -> Iterator[None]:
    """The sampler runs meanwhile; an interrupt makes it write its file."""
    sampler = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )
    assert sampler.stdout is not None
    output: list[str] = []
    ready = threading.Event()

    def listen() -> None:
        for line in sampler.stdout or ():
            output.append(line)
            if "Sampling process" in line:
                ready.set()

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    ready.wait(1.0)
    try:
        yield
    finally:
        sampler.send_signal(signal.SIGINT)
        sampler.wait(60)
        listener.join(5)
        if sampler.returncode not in (0, -signal.SIGINT, 130):
            print("".join(output), file=sys.stderr)


def _short(frame: str) -> str:
    return frame.replace(f"{PROJECT}/", "").replace("lib/python3", "py3")


def _table(title: str, counts: Counter[str], total: int, shown: int) -> None:
    print(f"\n{title}")
    for name, count in counts.most_common(shown):
        if count / total >= 0.005:
            print(f"  {count / total:6.1%}  {name}")


def summarize(stacks: str, shown: int) -> None:
    """Prints what collapsed stacks (py-spy's raw format) say."""
    lines: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    own: Counter[str] = Counter()
    total = 0
    for row in stacks.splitlines():
        frames, _, number = row.rpartition(" ")
        count = int(number)
        if frames.rpartition(";")[2].startswith(IDLE):
            continue
        names = [_short(frame) for frame in frames.split(";")]
        total += count
        lines[names[-1]] += count
        own[names[-1].rpartition(":")[0]] += count
        for name in dict.fromkeys(name.rpartition(":")[0] for name in names):
            functions[name] += count
    if not total:
        print("no samples: the broker was idle")
        return
    print(f"{total} samples")
    _table("lines, by what they do themselves", lines, total, shown)
    _table("functions, by what they do themselves", own, total, shown)
    _table("functions, with all that they call", functions, total, shown)


def _profile(row: Row, target: Target, arguments: argparse.Namespace) -> None:
    PROFILES.mkdir(parents=True, exist_ok=True)
    target.start()
    target.create_topic("profiled", row.partitions)
    if row.fill:
        row.fill(target, "profiled", arguments.scale)
    raw = PROFILES / f"{row.key}.raw"
    svg = PROFILES / f"{row.key}.svg"
    perf_data = PROFILES / f"{row.key}.perf"
    if arguments.perf:
        command = _perf(target, perf_data, arguments)
    elif arguments.svg:
        command = _spy(target, svg, "flamegraph", arguments)
    else:
        command = _spy(target, raw, "raw", arguments)
    with _sampling(command):
        values = row.measure(target, "profiled", arguments.scale)
    shown = {metric.label: values.get(metric.key) for metric in row.metrics}
    print(f"{row.title}\nwhile being sampled: {shown}")
    if arguments.perf:
        report = ["perf", "report", "-i", str(perf_data), "--stdio", "-q"]
        for keys in ("dso", "dso,symbol"):
            done = subprocess.run(
                [*report, "--sort", keys, "--percent-limit", "0.7"], capture_output=True, text=True
            )
            print(done.stdout)
    elif arguments.svg:
        print(f"flame graph: {svg}")
    else:
        summarize(raw.read_text(), arguments.lines)


def _imports() -> None:
    """Which modules the start imports, and what each costs by itself and with its own imports."""
    command = [sys.executable, "-I", "-X", "importtime", "-c", IMPORTS]
    done = subprocess.run(command, capture_output=True, text=True)
    times = []
    for line in done.stderr.splitlines():
        parts = line.removeprefix("import time:").split("|")
        if len(parts) == 3 and parts[0].strip().isdigit():
            times.append((int(parts[1]), int(parts[0]), parts[2].rstrip()))
        elif not line.startswith("import time:"):
            print(line)
    total_us = sum(own for _, own, _ in times)
    print(f"imports: {total_us / 1000:.1f} ms in {len(times)} modules\n    with     own  ms")
    for cumulative, own, name in sorted(times, reverse=True)[:IMPORTS_SHOWN]:
        print(f"  {cumulative / 1000:6.1f}  {own / 1000:6.1f}  {name.strip()}")


def main() -> None:
    """Profiles one row."""
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    steady = [key for key, row in rows.BY_KEY.items() if row.is_steady]
    parser.add_argument("--row", required=True, choices=[*steady, "start"])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rate", type=int, default=400, help="samples a second")
    parser.add_argument("--lines", type=int, default=25, help="how many entries a table has")
    parser.add_argument("--native", action="store_true", help="C frames too (slower)")
    parser.add_argument("--svg", action="store_true", help="a flame graph in place of tables")
    parser.add_argument("--perf", action="store_true", help="perf in place of py-spy")
    parser.add_argument("--target", default="odradek", choices=list(targets.BY_KEY))
    arguments = parser.parse_args()
    if arguments.row == "start":
        _imports()
        return
    clients.binary("bench")
    target = targets.make(arguments.target, WORK / "profile")
    try:
        _profile(rows.BY_KEY[arguments.row], target, arguments)
    finally:
        target.close()


if __name__ == "__main__":
    main()
