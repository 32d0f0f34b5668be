"""Writes several sinks in one query: each batch of a view is read once for all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from odradek.bounded_parsing import parse_json
from odradek.pipeline.jobs.built import Built
from odradek.pipeline.report.failures import PartFailed, WriteBatch, part
from odradek.pipeline.spark.gateway import java_rows
from odradek.pipeline.spec.event_time import event_times
from odradek.pipeline.spec.key_lines import Path as Place
from odradek.pipeline.spec.model import REJECTS, PipelineSpec
from odradek.pipeline.spec.sharing import SharedQuery
from odradek.pipeline.spec.sinks import Sink
from odradek.pipeline.spec.steps import Sql
from odradek.pipeline.transforms.apply import apply
from odradek.pipeline.transforms.columns import StepInputError
from odradek.pipeline.transforms.times import Bound

STATEFUL: Final = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        "EventTimeWatermark",
        "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState",
        "GlobalLimit",
        "TransformWithState",
        "TransformWithStateInPySpark",
        "TransformWithStateInPandas",
        "Window",
    }
)
"""Nodes of Spark's plans whose rows depend on more than one row of the stream."""


class SharedBatches:
    """The function for foreachBatch of a shared query.

    built    of the pipeline; the tables among its views are joined with
    writers  by output
    count    called with a parse step and the number of its dead letters in a batch
    """

    def __init__(
        self,
        built: Built,
        query: SharedQuery,
        *,
        writers: Mapping[str, WriteBatch],
        checkpoint: Path,
        count: Callable[[str, int], object],
    ) -> None:
        self._built = built
        self._pipeline = built.pipeline
        self._query = query
        self._times = event_times(built.pipeline)
        self._writers = writers
        self._checkpoint = checkpoint
        self._count = count

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write one batch to all sinks, one after the other.

        raises  PartFailed with one line and without a cause: Spark 4.0 searches the text of an
                error with a regular expression that overflows the stack on a long text
        """
        try:
            with _in_memory() as keep:
                self._write(batch, number, keep)
        except PartFailed as error:
            raise PartFailed(error.where, error.reason) from None

    def _write(self, batch: DataFrame, number: int, keep: Callable[[DataFrame], DataFrame]) -> None:
        rows = self._rows(batch, number, keep)
        for output in self._query.outputs:
            where = place_of(self._pipeline, output)
            with part(where, self._pipeline):
                if output.endswith(REJECTS) and output not in self._pipeline.sinks:
                    self._count(output.removesuffix(REJECTS), rows[output].count())
                try:
                    self._writers[output](rows[output], number)
                except (PartFailed, PySparkException, Py4JError, StepInputError, OSError):
                    raise
                except Exception as error:
                    # Failures of the sinks have one line each.
                    raise PartFailed(where, str(error)) from error

    def _rows(
        self, batch: DataFrame, number: int, keep: Callable[[DataFrame], DataFrame]
    ) -> dict[str, DataFrame]:
        """The rows of each output; those that several are made of are kept in memory."""
        spark = batch.sparkSession
        batch_ms = batch_time_ms(self._checkpoint, number)
        readers = self._readers()
        views = dict(self._built.views)
        rejects: dict[str, DataFrame] = {}
        views[self._query.view] = keep(batch) if readers[self._query.view] > 1 else batch
        uses_sql = any(isinstance(self._pipeline.steps[name], Sql) for name in self._query.steps)
        if uses_sql:
            # The session is the query's own.
            views[self._query.view].createOrReplaceTempView(self._query.view)
        ahead_max = self._pipeline.pipeline.ahead_max
        for name in self._query.steps:
            step = self._pipeline.steps[name]
            with part(("steps", name), self._pipeline):
                is_divided = name + REJECTS in self._query.outputs
                bound = Bound(name, ahead_max, self._times.get(name, ()), batch_ms)
                applied = apply(
                    spark,
                    step,
                    views,
                    self._built.folder,
                    bound,
                    self._built.decodings.get(name),
                    keep if is_divided else None,
                )
                rows = applied.rows
                if readers[name] > 1 and not is_divided:
                    rows = keep(rows)
                views[name] = rows
                if uses_sql:
                    rows.createOrReplaceTempView(name)
            if applied.rejects is not None:
                rejects[name + REJECTS] = applied.rejects
        outputs = {name: views[self._sink(name).source] for name in self._query.outputs}
        return outputs | {name: rejects[name] for name in self._query.outputs if name in rejects}

    def _sink(self, output: str) -> Sink:
        return self._built.outputs[output][1]

    def _readers(self) -> dict[str, int]:
        """View -> how many steps and sinks of the query read it."""
        views = [self._query.view, *self._query.steps]
        inputs = [
            self._sink(name).source for name in self._query.outputs if name in self._pipeline.sinks
        ]
        for name in self._query.steps:
            step = self._pipeline.steps[name]
            if isinstance(step, Sql):
                # Which views it reads Spark knows: all of them may be read again.
                inputs += views[: views.index(name)]
            else:
                inputs += step.views.values()
        return {view: inputs.count(view) for view in views}


@contextmanager
def _in_memory() -> Iterator[Callable[[DataFrame], DataFrame]]:
    """Yield a function that keeps rows in memory, or on disk, until the end."""
    kept: list[DataFrame] = []

    def keep(rows: DataFrame) -> DataFrame:
        kept.append(rows.persist(StorageLevel.MEMORY_AND_DISK_DESER))
        return kept[-1]

    try:
        yield keep
    finally:
        for rows in reversed(kept):
            with suppress(PySparkException, Py4JError, OSError):
                rows.unpersist()


def batch_time_ms(checkpoint: Path, number: int) -> int:
    """When a batch was planned, in ms since 1970, from Spark's offset log.

    It is the same when the batch is repeated.
    """
    lines = (checkpoint / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
    return int(parse_json(lines[1])["batchTimestampMs"])


def place_of(pipeline: PipelineSpec, output: str) -> Place:
    """The part of an output: its sink, or the step whose dead letters it has."""
    if output in pipeline.sinks:
        return ("sinks", output)
    return ("steps", output.removesuffix(REJECTS))


def blamed(failure: PartFailed) -> PartFailed:
    """The failure of the part of a shared query that has failed, instead of that of the query."""
    match = re.match(r"(sources|steps|sinks)\.(\w+): (.+)", failure.reason, re.DOTALL)
    if match is None:
        return failure
    named = PartFailed((match[1], match[2]), match[3])
    named.__cause__ = failure.__cause__
    return named


def check_stateless(
    pipeline: PipelineSpec, query: SharedQuery, view: DataFrame, rows: Mapping[str, DataFrame]
) -> None:
    """Check by Spark's plans that no step between a view and the sinks needs more than single rows.

    rows    output -> its rows, as streams
    raises  PartFailed
    """
    above = _stateful_count(view)
    for output in query.outputs:
        if _stateful_count(rows[output]) > above:
            raise PartFailed(
                place_of(pipeline, output),
                f"a step between {query.view} and this sink aggregates, and would do so batch by"
                ' batch with queries = "shared": use a window step',
            )


def _stateful_count(rows: DataFrame) -> int:
    plan = java_rows(rows)
    waiting = [plan.queryExecution().analyzed()]
    count = 0
    while waiting:
        node = waiting.pop()
        if not node.isStreaming():
            continue
        count += node.nodeName() in STATEFUL
        children = node.children()
        waiting += [children.apply(number) for number in range(children.size())]
    return count
