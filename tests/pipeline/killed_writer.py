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
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from odradek.pipeline.cli import main
from odradek.pipeline.jobs import run
from odradek.pipeline.report.failures import WriteBatch
from odradek.pipeline.sinks.write import SinkQuery, SinkWriter, writer_of
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.sinks import Sink


@dataclass
class KilledWriter:
    """A writer whose batches for a sink kill the process group."""

    writer: SinkWriter
    when: str
    sink: str
    batch: int

    def write(self, rows: DataFrame) -> None:
        """Write all rows of a batch pipeline."""
        self.writer.write(rows)

    def stream(self, rows: DataFrame, query: SinkQuery) -> DataStreamWriter:
        """The writer of a query that has this sink alone."""
        return self.writer.stream(rows, query)

    def batches(self, rows: DataFrame, query: SinkQuery) -> WriteBatch:
        """The writer of the batches of a stream."""
        write = self.writer.batches(rows, query)

        def write_and_kill(batch: DataFrame, number: int) -> None:
            is_last = query.sink == self.sink and number == self.batch
            if is_last and self.when == "before":
                os.killpg(0, signal.SIGKILL)
            write(batch, number)
            if is_last:
                os.killpg(0, signal.SIGKILL)

        return write_and_kill


def killed_at(when: str, name: str, batch: int) -> Callable[[Sink, PipelineSpec, Path], SinkWriter]:
    """`writer_of` with writers that kill the process group."""
    return lambda sink, pipeline, folder: KilledWriter(
        writer_of(sink, pipeline, folder), when, name, batch
    )


if __name__ == "__main__":
    vars(run)["writer_of"] = killed_at(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.exit(main(sys.argv[4:]))
