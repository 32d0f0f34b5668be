"""Transactions across a cluster of which everything is killed with -9.

    python -m tests.cluster.campaign_transactions [--records 100000] [--kills 5] [--only NAME]

A run of each library copies a topic (copying.py); then Apache Kafka Streams counts words
(word_count.py).  Each has a cluster of its own, and appends a line to `transactions.jsonl`: when,
commit, what ran, what was killed, verdict.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from tests.cluster.copying import LIBRARIES, Copy, copy_under_kills
from tests.cluster.stored_logs import assert_undamaged
from tests.cluster.word_count import WordCount, count_under_kills
from tests.support.broker_cluster import BrokerCluster, broker_cluster
from tests.support.ledger import append, commit
from tests.support.zookeeper import connect_text, zookeeper_ensemble

LEDGER = Path(__file__).with_name("transactions.jsonl")
STREAMS = "kafka-streams"


def copy(
    cluster: BrokerCluster, name: str, folder: Path, steps: list[str], records: int, kills: int
) -> None:
    """Copy a topic with a library."""
    copied = Copy(cluster, name, folder, records=records, random=Random(records))
    copied.steps = steps
    try:
        copy_under_kills(copied, records=records, kills=kills)
    finally:
        copied.close()


def count(
    cluster: BrokerCluster, name: str, folder: Path, steps: list[str], records: int, kills: int
) -> None:
    """Count words with Kafka Streams."""
    counted = WordCount(cluster, folder, records=records, random=Random(records))
    counted.steps = steps
    try:
        count_under_kills(counted, records=records, kills=kills)
    finally:
        counted.close()


def run_once(name: str, records: int, kills: int) -> bool:
    """One cluster; whether all checks held."""
    began = time.time()
    steps: list[str] = []
    run: Callable[..., None] = count if name == STREAMS else copy
    folder = Path(tempfile.mkdtemp(prefix="campaign-transactions-"))
    try:
        with (
            zookeeper_ensemble(folder) as servers,
            broker_cluster(folder, zookeeper_connect=connect_text(servers, "/copies")) as cluster,
        ):
            run(cluster, name, folder, steps, records, kills)
        assert_undamaged(folder)
        shutil.rmtree(folder)
        verdict = "held"
    except AssertionError as error:
        print(f"{error}\nlogs in {folder}", file=sys.stderr)
        verdict = f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"
    line = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "commit": commit(),
        "run": name,
        "records": records,
        "seconds": round(time.time() - began),
        "kills": steps,
        "verdict": verdict,
    }
    append(LEDGER, line)
    return verdict == "held"


def main(words: Sequence[str]) -> int:
    """Run all, or one; 1 when a check failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster.campaign_transactions", description=__doc__
    )
    names = (*LIBRARIES, STREAMS)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=5, help="of brokers, and of clients")
    parser.add_argument("--only", choices=names)
    arguments = parser.parse_args(words)
    chosen = [name for name in names if arguments.only in (name, None)]
    failures = [name for name in chosen if not run_once(name, arguments.records, arguments.kills)]
    return min(len(failures), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
