"""The command line: python -m bench.cluster [--measure M]... [--kinds A,B] [--rounds N]."""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

from bench.cluster.measures import FOLDER, MEASURES, Values
from bench.cluster.members import KINDS, Members
from bench.places import WORK
from tests.support.zookeeper import zookeeper


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster")
    parser.add_argument("--measure", action="append", choices=list(MEASURES))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--rounds", type=int, default=3, help="after one that is dropped")
    parser.add_argument("--scale", type=float, default=1.0, help="shrinks data and counts")
    parser.add_argument("--work", type=Path, default=WORK)
    return parser


def _print(measure: str, rounds: dict[str, list[Values]]) -> None:
    print(f"{measure}:")
    for kind, values in rounds.items():
        for name in values[0]:
            figures = [value[name] for value in values]
            middle = statistics.median(figures)
            span = f"{min(figures):.3g} - {max(figures):.3g}"
            print(f"  {KINDS[kind].label:20} {name:20} {middle:9.4g}  ({span})")


def main() -> None:
    """Rounds are interleaved: each kind once, then each kind again, on the same ZooKeeper."""
    arguments = _parser().parse_args()
    folder = arguments.work / FOLDER
    with zookeeper(folder / "zookeeper") as address:
        for measure in arguments.measure or list(MEASURES):
            rounds: dict[str, list[Values]] = {kind: [] for kind in arguments.kinds.split(",")}
            members: dict[str, Members] = {}
            try:
                for kind in rounds:
                    members[kind] = KINDS[kind](folder / f"{kind}-{measure}", address)
                    members[kind].start()
                for number in range(arguments.rounds + 1):
                    for kind, values in rounds.items():
                        figures = MEASURES[measure](members[kind], arguments.scale)
                        print(json.dumps({"round": number, "kind": kind, **figures}), flush=True)
                        if number or not arguments.rounds:
                            values.append(figures)
            finally:
                for member in members.values():
                    member.close()
            _print(measure, rounds)


if __name__ == "__main__":
    main()
