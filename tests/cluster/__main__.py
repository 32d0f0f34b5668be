"""Kills parts of clusters at random for as long as asked, while every client library works.

    python -m tests.cluster [--minutes 30] [--seed N] [--coordination zookeeper|embedded|both]

Each run is a cluster of its own, for `KILLS_A_RUN` kills.  Appends a line to `ledger.jsonl`
for each: when, commit, coordination, seed, what was killed, records, verdict.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.cluster.killing import VICTIMS, Scene, scene
from tests.cluster.stored_logs import assert_undamaged
from tests.support.broker_cluster import broker_cluster
from tests.support.ledger import append, commit
from tests.support.zookeeper import connect_text, zookeeper_ensemble

LEDGER = Path(__file__).with_name("ledger.jsonl")
KILLS_A_RUN = 12
ZOOKEEPER = "zookeeper"
EMBEDDED = "embedded"


@contextmanager
def running(coordination: str, folder: Path) -> Iterator[Scene]:
    """A cluster of a kind, and the clients."""
    if coordination == EMBEDDED:
        with (
            broker_cluster(folder, zookeeper_connect=None) as cluster,
            scene(cluster, folder) as opened_scene,
        ):
            yield opened_scene
        return
    with (
        zookeeper_ensemble(folder) as servers,
        broker_cluster(folder, zookeeper_connect=connect_text(servers, "/kills")) as cluster,
        scene(cluster, folder, servers=servers) as opened_scene,
    ):
        yield opened_scene


def run_once(coordination: str, seed: int, deadline: float) -> bool:
    """One cluster; whether all checks held."""
    random = Random(seed)
    began = time.time()
    steps: list[str] = []
    acknowledged = 0
    folder = Path(tempfile.mkdtemp(prefix="chaos-cluster-"))
    try:
        with running(coordination, folder) as opened_scene:
            steps = opened_scene.steps
            for _ in range(KILLS_A_RUN):
                opened_scene.kill(random.choice(VICTIMS))
                acknowledged = opened_scene.producers.count()
                if time.monotonic() > deadline:
                    break
            opened_scene.check()
            acknowledged = opened_scene.producers.count()
        assert_undamaged(folder)
        shutil.rmtree(folder)
        verdict = "held"
    except AssertionError as error:
        print(f"{error}\nlogs in {folder}", file=sys.stderr)
        verdict = f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"
    append(
        LEDGER,
        {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
            "commit": commit(),
            "coordination": coordination,
            "seed": seed,
            "seconds": round(time.time() - began),
            "kills": steps,
            "acknowledged": acknowledged,
            "verdict": verdict,
        },
    )
    return verdict == "held"


def main(words: Sequence[str]) -> int:
    """Run clusters of both kinds in turn until the time is up; 1 when a check failed in one."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    kinds = (ZOOKEEPER, EMBEDDED)
    parser.add_argument("--coordination", choices=(*kinds, "both"), default="both")
    arguments = parser.parse_args(words)
    chosen = [kind for kind in kinds if arguments.coordination in (kind, "both")]
    deadline = time.monotonic() + arguments.minutes * 60
    failures = 0
    for number in range(sys.maxsize):
        if number and time.monotonic() > deadline:
            break
        failures += not run_once(chosen[number % len(chosen)], arguments.seed + number, deadline)
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
