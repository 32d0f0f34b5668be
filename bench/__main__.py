"""The command line: python -m bench [--row ROW]... [--targets A,B] [--rounds N] [--scale S]."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from bench import cores, machine, report, rounds
from bench.places import RESULTS, TABLE, WORK
from bench.rows import catalog as rows
from bench.rows.row import Row
from bench.targets import catalog as targets

ROUNDS = 5


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measures Odradek beside other brokers and prints a table.",
        epilog="rows: " + ", ".join(rows.BY_KEY) + "; targets: " + ", ".join(targets.BY_KEY),
    )
    parser.add_argument("--row", action="append", choices=list(rows.BY_KEY), metavar="ROW")
    parser.add_argument("--targets", help="comma-separated; default: all that the row allows")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"measured rounds (default {ROUNDS})"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="shrinks data and times, e.g. 0.1 for a quick look"
    )
    parser.add_argument(
        "--pin", action="store_true", help="client and broker on cores of their own"
    )
    parser.add_argument("--work", type=Path, default=WORK, help="where data directories go")
    parser.add_argument(
        "--write",
        action="store_true",
        help="keeps the rounds and renews bench/RESULTS.md even when this is not a whole "
        "measurement: full size, five rounds at least, all targets, nothing pinned",
    )
    parser.add_argument(
        "--render", action="store_true", help="renews bench/RESULTS.md from kept rounds, no more"
    )
    return parser


def _chosen(row: Row, option: str | None) -> list[str]:
    allowed = [key for key in targets.available() if key in row.targets]
    if option is None:
        return allowed
    keys = option.split(",")
    unknown = [key for key in keys if key not in targets.BY_KEY]
    if unknown:
        raise SystemExit(f"unknown targets: {', '.join(unknown)}")
    return [key for key in allowed if key in keys]


def _end(*_: object) -> None:
    raise SystemExit("stopped")


def main() -> None:
    """Runs the rows that were asked for, all of them by default."""
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, _end)
    machine.allow_many_files()
    if arguments.pin:
        cores.pin()
    is_kept = arguments.write or (
        arguments.scale == 1
        and arguments.rounds >= ROUNDS
        and arguments.targets is None
        and not arguments.pin
    )
    keys = [] if arguments.render else arguments.row or list(rows.BY_KEY)
    results = {}
    with targets.Pool(arguments.work) as pool:
        for row in map(rows.BY_KEY.__getitem__, keys):
            chosen = _chosen(row, arguments.targets)
            if not chosen:
                continue
            print(f"{row.key}: {row.title}", file=sys.stderr, flush=True)
            if not row.is_steady:
                pool.close()
            brokers = [pool.get(key) for key in chosen]
            result = rounds.run(row, brokers, rounds=arguments.rounds, scale=arguments.scale)
            results[row.key] = result
            print(report.table(row, result), flush=True)
            if is_kept:
                result.save(RESULTS)
    if results:
        print(report.aims(results), flush=True)
    if is_kept or arguments.render:
        TABLE.write_text(report.document(report.load_all(RESULTS)))


if __name__ == "__main__":
    main()
