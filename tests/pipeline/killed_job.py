"""`odradek pipeline`, killed at the commit of a transaction: a program for tests.

python -m tests.pipeline.killed_job WHEN BATCH run FILE ...

WHEN   before: the records and the batch are sent, and not committed; after: they are committed
BATCH  the number of the transaction of this run, from 1
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from confluent_kafka import Producer

from odradek.pipeline.cli import main
from odradek.pipeline.sinks import exactly_once

FLUSH_TIMEOUT_S = 60.0


class KilledProducer(Producer):
    """Kills its process group at the commit of a transaction."""

    when = "before"
    commits_left = 1

    def commit_transaction(self, *arguments: Any, **named: Any) -> None:
        KilledProducer.commits_left -= 1
        is_last = KilledProducer.commits_left == 0
        if is_last and self.when == "before":
            assert self.flush(FLUSH_TIMEOUT_S) == 0
            os.killpg(0, signal.SIGKILL)
        super().commit_transaction(*arguments, **named)
        if is_last:
            os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    KilledProducer.when = sys.argv[1]
    KilledProducer.commits_left = int(sys.argv[2])
    vars(exactly_once)["Producer"] = KilledProducer
    sys.exit(main(sys.argv[3:]))
