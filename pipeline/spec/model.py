"""The whole pipeline file, and what must hold between its parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from pipeline.spec.common import Duration, Name, Options, Part, Text
from pipeline.spec.ends import Cluster, KafkaSink, KafkaSource, Sink, Source
from pipeline.spec.positions import Path
from pipeline.spec.steps import (
    Anomalies,
    AnyStep,
    Correlate,
    Deduplicate,
    Join,
    Parse,
    Sql,
    TopKeys,
    Window,
)


class Head(Part):
    """The table `[pipeline]`.

    checkpoint  folder where a stream remembers how far it is
    mode        stream: until stopped; available_now: what is there, then the end; batch: without a
                checkpoint, all at once
    """

    name: Text
    mode: Literal["stream", "available_now", "batch"] = "stream"
    checkpoint: Text | None = None
    trigger: Duration | None = None
    """Of a stream: the time from batch to batch; None: as soon as the last one is done."""
    spark: Options = {}
    """Settings of the Spark session."""


class Pipeline(Part):
    """A pipeline file."""

    pipeline: Head
    clusters: dict[str, Cluster] = {}
    sources: dict[Name, Source] = Field(min_length=1)
    steps: dict[Name, AnyStep] = {}
    sinks: dict[Name, Sink] = Field(min_length=1)


def faults(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """What is wrong between the parts: where, and what would be right."""
    head = pipeline.pipeline
    if head.mode != "batch" and head.checkpoint is None:
        yield ("pipeline",), f"mode {head.mode} needs a checkpoint folder: checkpoint = ..."
    if head.trigger is not None and head.mode != "stream":
        yield ("pipeline", "trigger"), 'a trigger needs mode = "stream"'
    yield from _clusters(pipeline)
    views = dict.fromkeys(pipeline.sources)
    for name, step in pipeline.steps.items():
        if name in views:
            yield ("steps", name), "a source has this name already; names are views of SQL"
        wanted = {} if isinstance(step, Sql) else {"from": step.source}
        if isinstance(step, Join):
            wanted["right"] = step.right
        for key, view in wanted.items():
            if view not in views:
                yield ("steps", name, key), _unknown(view, "source or earlier step", views)
        views[name] = None
    yield from _watermarks(pipeline)
    for name, sink in pipeline.sinks.items():
        if sink.source not in views:
            yield ("sinks", name, "from"), _unknown(sink.source, "source or step", views)


def _watermarks(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """One watermark on each way from a source to a sink, and before it is needed.

    A step that looks for anomalies ends it: after that one it may be set again.
    """
    set_by: dict[str, str] = {}
    for name, step in pipeline.steps.items():
        if isinstance(step, Sql):
            if step.watermarks:
                set_by[name] = name
            continue
        above = set_by.get(step.source)
        if above is not None and not isinstance(step, Anomalies):
            set_by[name] = above
        if not isinstance(step, Deduplicate | Window | Correlate | TopKeys):
            continue
        if step.watermark is not None and above is not None:
            said = f"step {above} above has set the watermark already; leave it out here"
            yield ("steps", name, "watermark"), said
        elif step.watermark is None and above is None and pipeline.pipeline.mode != "batch":
            is_sure = _is_plain(pipeline, step.source)
            if is_sure:
                yield ("steps", name), "a stream needs a watermark here: watermark = ..."
        if step.watermark is not None:
            set_by[name] = name


def _is_plain(pipeline: Pipeline, view: str) -> bool:
    """Whether no query or join lies above, whose watermarks are not known here."""
    while view in pipeline.steps:
        step = pipeline.steps[view]
        if isinstance(step, Sql | Join):
            return False
        view = step.source
    return True


def _clusters(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    wanted: list[tuple[Path, str]] = []
    for name, source in pipeline.sources.items():
        if isinstance(source, KafkaSource):
            wanted.append((("sources", name, "cluster"), source.cluster))
    for name, step in pipeline.steps.items():
        if isinstance(step, Parse) and step.rejects_cluster is not None:
            wanted.append((("steps", name, "rejects_cluster"), step.rejects_cluster))
    for name, sink in pipeline.sinks.items():
        if isinstance(sink, KafkaSink):
            wanted.append((("sinks", name, "cluster"), sink.cluster))
    for path, cluster in wanted:
        if cluster not in pipeline.clusters:
            yield path, _unknown(cluster, "cluster", pipeline.clusters)


def _unknown(name: str, what: str, known: object) -> str:
    names = ", ".join(known) if isinstance(known, dict) and known else "none"
    return f"{name!r} is no {what}; there are: {names}"
