"""`odradek pipeline`, killed before or after a sink of a shared query has written a batch.

A program for tests:

python -m tests.pipeline.killed_writer WHEN SINK BATCH run FILE ...

WHEN   before: the sink has not written the batch; after: it has
BATCH  the number of the batch in the checkpoint
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from odradek.pipeline.cli import main
from odradek.pipeline.jobs import run
from odradek.pipeline.sinks.write import batch_writer_of


def killed_at(when: str, sink: str, batch: int) -> Callable[..., Callable[[DataFrame, int], None]]:
    """`batch_writer_of` whose writer for a sink kills its process group."""

    def writer_of(*arguments: Any, name: str, **named: Any) -> Callable[[DataFrame, int], None]:
        write = batch_writer_of(*arguments, name=name, **named)

        def write_and_kill(rows: DataFrame, number: int) -> None:
            is_last = name == sink and number == batch
            if is_last and when == "before":
                os.killpg(0, signal.SIGKILL)
            write(rows, number)
            if is_last:
                os.killpg(0, signal.SIGKILL)

        return write_and_kill

    return writer_of


if __name__ == "__main__":
    vars(run)["batch_writer_of"] = killed_at(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.exit(main(sys.argv[4:]))
