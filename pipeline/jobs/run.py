"""Runs a pipeline file: views of sources and steps, a query for each sink."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipeline import io
from pipeline.spec.ends import KafkaSink, KafkaSource, Sink, TableSink, TableSource
from pipeline.spec.model import Pipeline
from pipeline.spec.steps import Parse
from pipeline.transforms.apply import apply

IDENTITY: Final = "pipeline.json"
"""Says whose checkpoint a folder is."""


class WrongCheckpoint(Exception):
    """A checkpoint folder that belongs to another pipeline."""


@dataclass(frozen=True, slots=True)
class Built:
    """A pipeline in Spark's terms: what each sink writes, by the name of its query."""

    outputs: dict[str, tuple[DataFrame, Sink]]


def needs(pipeline: Pipeline) -> Iterator[str]:
    """Connectors that it uses, as `session.CONNECTORS` names them."""
    for end in (*pipeline.sources.values(), *pipeline.sinks.values()):
        if isinstance(end, KafkaSource | KafkaSink):
            yield "kafka"
        elif isinstance(end, TableSource | TableSink):
            yield ":".join(end.url.split(":")[:2])
    if any(isinstance(step, Parse) and step.format == "avro" for step in pipeline.steps.values()):
        yield "avro"


def build(spark: SparkSession, pipeline: Pipeline, folder: Path) -> Built:
    """Make the views; nothing runs yet.

    folder  that of the pipeline file
    raises  pyspark.errors.AnalysisException for SQL that does not fit
    """
    views: dict[str, DataFrame] = {}
    outputs: dict[str, tuple[DataFrame, Sink]] = {}
    for name, source in pipeline.sources.items():
        views[name] = io.read(spark, source, pipeline.clusters, pipeline.pipeline, folder)
        views[name].createOrReplaceTempView(name)
    for name, step in pipeline.steps.items():
        applied = apply(spark, step, views, folder)
        views[name] = applied.rows
        views[name].createOrReplaceTempView(name)
        if applied.rejects is not None and isinstance(step, Parse) and step.rejects_cluster:
            dead_letters = KafkaSink.model_validate(
                {
                    "kind": "kafka",
                    "from": name,
                    "cluster": step.rejects_cluster,
                    "topic": step.rejects,
                    "value": None,
                }
            )
            outputs[f"{name}_rejects"] = (applied.rejects, dead_letters)
    for name, sink in pipeline.sinks.items():
        outputs[name] = (views[sink.source], sink)
    return Built(outputs)


def claim(pipeline: Pipeline, folder: Path) -> Path:
    """The checkpoint folder of a stream, claimed for this pipeline.

    raises  WrongCheckpoint; OSError
    """
    assert pipeline.pipeline.checkpoint is not None, "a stream has a checkpoint"
    checkpoint = folder / pipeline.pipeline.checkpoint
    checkpoint.mkdir(parents=True, exist_ok=True)
    identity = checkpoint / IDENTITY
    mine = {
        "pipeline": pipeline.pipeline.name,
        "sources": {
            name: one.model_dump(include={"kind", "cluster", "subscribe", "pattern", "path"})
            for name, one in pipeline.sources.items()
        },
    }
    if identity.exists():
        theirs = json.loads(identity.read_text())
        for key, value in mine.items():
            if theirs.get(key) != json.loads(json.dumps(value)):
                raise WrongCheckpoint(
                    f"{checkpoint} is the checkpoint of pipeline {theirs.get('pipeline')!r} and"
                    f" its {key} {json.dumps(theirs.get(key))}, this one has {json.dumps(value)};"
                    " give another checkpoint folder, or remove this one to begin anew"
                )
    else:
        temporary = identity.with_suffix(".new")
        temporary.write_text(json.dumps(mine, indent=2) + "\n")
        temporary.rename(identity)
    return checkpoint


def run_batch(pipeline: Pipeline, built: Built, folder: Path) -> None:
    """Write everything, sink after sink."""
    for rows, sink in built.outputs.values():
        io.write_batch(rows, sink, pipeline.clusters, folder)


def start_stream(pipeline: Pipeline, built: Built, folder: Path) -> list[StreamingQuery]:
    """Begin a query for each sink."""
    checkpoint = claim(pipeline, folder)
    return [
        io.start(
            rows,
            sink,
            pipeline.clusters,
            pipeline.pipeline,
            folder,
            name=name,
            checkpoint=str(checkpoint / name),
        )
        for name, (rows, sink) in built.outputs.items()
    ]


def wait(queries: list[StreamingQuery]) -> None:
    """Until all have ended, or one has failed: then the others are stopped.

    raises  pyspark.errors.StreamingQueryException
    """
    waiting = list(queries)
    try:
        while waiting:
            waiting = [query for query in waiting if not query.awaitTermination(1)]
    finally:
        for query in waiting:
            query.stop()
