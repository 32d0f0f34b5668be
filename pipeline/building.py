"""Pipelines built in Python: the tables and keys of a pipeline file, for notebooks and tests."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

from pyspark.sql import DataFrame, Row, SparkSession

from odradek.pipeline.jobs import run
from odradek.pipeline.jobs.given import read_given
from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.spec import model
from odradek.pipeline.spec.document import Document
from odradek.pipeline.spec.key_lines import Path as KeyPath
from odradek.pipeline.spec.load import pipeline_of
from odradek.pipeline.spec.problems import Line

BUILT: Final = "pipeline"
"""The name of the file in error messages."""


def _warn(failure: PartFailed, what_next: str) -> None:
    print(f"WARN {failure}; {what_next}", file=sys.stderr)


class Pipeline:
    """A pipeline that is built part by part, with the keys of a pipeline file.

    `from` is a word of Python: parts take `source="view"` instead.

    folder  the base of relative paths
    head    further keys of the table `[pipeline]`, such as mode and checkpoint
    """

    def __init__(self, name: str, *, folder: Path | str = ".", **head: Any) -> None:
        self._folder = Path(folder).resolve()
        self._table: dict[str, Any] = {"pipeline": {"name": name, "mode": "batch", **head}}

    def cluster(self, name: str, bootstrap_servers: str, **keys: Any) -> Self:
        """Add a cluster."""
        return self._add("clusters", name, {"bootstrap_servers": bootstrap_servers, **keys})

    def registry(self, name: str, url: str, **keys: Any) -> Self:
        """Add a schema registry."""
        return self._add("registries", name, {"url": url, **keys})

    def source(self, name: str, kind: str, **keys: Any) -> Self:
        """Add a source."""
        return self._add("sources", name, {"kind": kind, **keys})

    def step(self, name: str, kind: str, **keys: Any) -> Self:
        """Add a step after the present ones."""
        return self._add("steps", name, {"kind": kind, **keys})

    def sink(self, name: str, kind: str, **keys: Any) -> Self:
        """Add a sink."""
        return self._add("sinks", name, {"kind": kind, **keys})

    def _add(self, table: str, name: str, keys: dict[str, Any]) -> Self:
        if "source" in keys:
            keys["from"] = keys.pop("source")
        self._table.setdefault(table, {})[name] = keys
        return self

    def checked(self) -> model.PipelineSpec:
        """The model of the pipeline.

        raises  SpecError with all errors
        """
        lines: dict[KeyPath, Line] = {(): Line(BUILT, 0)}
        return pipeline_of(Document(copy.deepcopy(self._table), lines))

    def views(self, spark: SparkSession) -> dict[str, DataFrame]:
        """The rows of sources and steps, as views of SQL also.

        raises  SpecError; PartFailed
        """
        return run.build(spark, self.checked(), self._folder).views

    def run(self, spark: SparkSession) -> None:
        """Write all sinks; in mode stream until it is interrupted.

        raises  SpecError; PartFailed
        """
        pipeline = self.checked()
        built = run.build(spark, pipeline, self._folder)
        if pipeline.pipeline.mode == "batch":
            run.run_batch(built)
        else:
            run.run_stream(built, say=_warn)

    def test(
        self, spark: SparkSession, view: str, given: Mapping[str, Sequence[Mapping[str, Any]]]
    ) -> list[Row]:
        """The rows of a view in batch mode, with given rows as those of the sources.

        given   source -> rows, as in a file of cases
        raises  SpecError; PartFailed; GivenRowsError
        """
        pipeline = self.checked().in_mode("batch")
        with TemporaryDirectory(prefix="odradek-case-") as folder:

            def read(name: str) -> DataFrame:
                rows = [dict(row) for row in given.get(name, ())]
                source, place = pipeline.sources[name], Path(folder) / name
                return read_given(spark, source, [rows], pipeline.pipeline, place)

            return run.build_from(spark, pipeline, self._folder, read).views[view].collect()
