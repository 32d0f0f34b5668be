"""The model of a pipeline file, and the checks between its parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os.path import normpath
from typing import Final, Literal

from pydantic import ConfigDict, Field

from odradek.pipeline.spec.ends import Cluster, Registry, options_fault
from odradek.pipeline.spec.field_types import Duration, Name, Options, Part, Text
from odradek.pipeline.spec.key_lines import Path
from odradek.pipeline.spec.parse_step import Parse
from odradek.pipeline.spec.producer_properties import client_fault
from odradek.pipeline.spec.sinks import FileSink, KafkaSink, Restart, Sink, TableSink
from odradek.pipeline.spec.sources import FileSource, KafkaSource, RateSource, Source
from odradek.pipeline.spec.steps import Anomalies, AnyStep, Filter, Join, Python, Sql, WithWatermark

REJECTS: Final = "_rejects"
"""Suffix of the name of the query that writes a step's dead letters."""


class Head(Part):
    """The table `[pipeline]`.

    checkpoint  the folder of a stream's progress and state
    mode        stream: run until stopped; available_now: process the present rows, then end;
                batch: the present rows at once, without a checkpoint
    """

    name: Text
    """Names the application in Spark, and the groups and transactions of exactly-once sinks."""
    mode: Literal["stream", "available_now", "batch"] = "stream"
    checkpoint: Text | None = None
    trigger: Duration | None = None
    """In stream mode, the interval of batches; None: start a batch when the last one is done."""
    ahead_max: Duration = "1 day"
    """How far a row's event time may be after the time of its batch.  In a stream a row beyond it
    does not advance a watermark: it becomes a dead letter if a parse step has parsed the time, and
    is dropped and counted otherwise."""
    queries: Literal["per_sink", "shared"] = "per_sink"
    """shared: in a stream, sinks with only stateless steps between them and one view have one
    query, which reads and parses once for all of them.  Each way has checkpoints of its own."""
    spark: Options = {}
    """Settings of the Spark session."""
    restart: Restart | None = None
    """Start queries again that have failed; None: a failure ends the pipeline."""


class PipelineSpec(Part):
    """A pipeline file."""

    model_config = ConfigDict(title="Pipeline")

    pipeline: Head
    clusters: dict[str, Cluster] = {}
    registries: dict[str, Registry] = {}
    sources: dict[Name, Source] = Field(min_length=1)
    steps: dict[Name, AnyStep] = {}
    sinks: dict[Name, Sink] = Field(min_length=1)

    def in_mode(self, mode: Literal["stream", "available_now", "batch"]) -> PipelineSpec:
        """A copy with another mode; the trigger is kept for streams only."""
        trigger = self.pipeline.trigger if mode == "stream" else None
        head = self.pipeline.model_copy(update={"mode": mode, "trigger": trigger})
        return self.model_copy(update={"pipeline": head})

    def dead_letter_steps(self) -> dict[str, str]:
        """Query -> the parse step whose dead letters it writes."""
        return {
            name + REJECTS: name
            for name, step in self.steps.items()
            if isinstance(step, Parse) and step.rejects is not None
        }

    def restarts(self) -> dict[str, Restart]:
        """Query -> when it is started again; a query that is not in it is not."""
        default = self.pipeline.restart
        own = {name: sink.restart or default for name, sink in self.sinks.items()}
        policies = {**dict.fromkeys(self.dead_letter_steps(), default), **own}
        return {name: policy for name, policy in policies.items() if policy is not None}

    def above(self, view: str) -> list[str]:
        """The views that a view is made of; for a SQL step, all before it."""
        step = self.steps.get(view)
        if isinstance(step, Sql):
            steps = list(self.steps)
            return [*self.sources, *steps[: steps.index(view)]]
        return [] if step is None else list(step.views.values())

    def _with_those_above(self, views: Iterable[str]) -> set[str]:
        pending = list(views)
        reached: set[str] = set()
        while pending:
            view = pending.pop()
            if view not in reached:
                reached.add(view)
                pending += self.above(view)
        return reached

    def only_for(self, names: Iterable[str]) -> PipelineSpec:
        """A copy with the parts that some sources, steps and sinks, and dead letters, depend on."""
        rejects = self.dead_letter_steps()
        names = list(names)
        sinks = {name: self.sinks[name] for name in names if name in self.sinks}
        views = self._with_those_above(
            [
                *(rejects.get(name, name) for name in names if name not in sinks),
                *(sink.source for sink in sinks.values()),
            ]
        )
        return self.model_copy(
            update={
                "sources": {name: source for name, source in self.sources.items() if name in views},
                "steps": {name: step for name, step in self.steps.items() if name in views},
                "sinks": sinks,
            }
        )

    def topic_of(self, view: str) -> str | None:
        """The topic that the rows of a view come from; None if there are several, or none."""
        while (step := self.steps.get(view)) is not None:
            if isinstance(step, Sql | Join):
                return None
            view = step.source
        source = self.sources.get(view)
        topics = source.topics if isinstance(source, KafkaSource) else []
        return topics[0] if len(topics) == 1 else None

    def sources_of(self, name: str) -> set[str]:
        """The sources that a sink or view depends on; for a SQL step, all sources."""
        view = self.sinks[name].source if name in self.sinks else name
        return self._with_those_above([view]) - set(self.steps)

    def is_static(self, view: str) -> bool:
        """Whether a view depends on tables only, and so is not a stream."""
        return all(self.sources[name].is_static for name in self.sources_of(view))


def faults(pipeline: PipelineSpec) -> Iterator[tuple[Path, str]]:
    """Yield the errors between valid parts: place and message."""
    head = pipeline.pipeline
    if head.mode != "batch" and head.checkpoint is None:
        yield ("pipeline",), f"mode {head.mode} needs a checkpoint folder: checkpoint = ..."
    if head.trigger is not None and head.mode != "stream":
        yield ("pipeline", "trigger"), 'a trigger needs mode = "stream"'
    if head.mode == "batch":
        yield from _restarts(pipeline)
    yield from _references(pipeline)
    yield from _registries(pipeline)
    yield from _names(pipeline)
    yield from _of_mode(pipeline)
    yield from _paths(pipeline)
    views = dict.fromkeys(pipeline.sources)
    for name, step in pipeline.steps.items():
        for view in step.watermarks if isinstance(step, Sql) else ():
            if view not in views:
                yield ("steps", name, "watermarks", view), _unknown(view, "view above", views)
        for key, view in step.views.items():
            if view not in views:
                yield ("steps", name, key), _unknown(view, "source or earlier step", views)
        views[name] = None
    yield from _watermarks(pipeline)
    yield from _exactly_once(pipeline)
    yield from _source_rejects(pipeline)
    yield from _unavailable(pipeline)
    for name, sink in pipeline.sinks.items():
        if sink.source not in views:
            yield ("sinks", name, "from"), _unknown(sink.source, "source or step", views)


def _restarts(pipeline: PipelineSpec) -> Iterator[tuple[Path, str]]:
    reason = "a batch is not started again; allowed in modes stream and available_now"
    if pipeline.pipeline.restart is not None:
        yield ("pipeline", "restart"), reason
    for name, sink in pipeline.sinks.items():
        if sink.restart is not None:
            yield ("sinks", name, "restart"), reason


def _names(pipeline: PipelineSpec) -> Iterator[tuple[Path, str]]:
    """Check that names of views are unique, ignoring case, and names of queries, too."""
    seen: dict[str, str] = {}
    for table, names in (("sources", pipeline.sources), ("steps", pipeline.steps)):
        for name in names:
            other = seen.get(name.lower())
            if other is None:
                seen[name.lower()] = name
            else:
                what = "source" if other in pipeline.sources else "step"
                written = "" if other == name else f" ({other}: SQL ignores case)"
                yield (
                    (table, name),
                    f"a {what} has this name already{written}; names are views of SQL",
                )
    for name, step in pipeline.steps.items():
        if isinstance(step, Parse) and step.rejects and name + REJECTS in pipeline.sinks:
            written = f"the query of step {name} that writes its rejects has this name already"
            yield ("sinks", name + REJECTS), written


def _of_mode(pipeline: PipelineSpec) -> Iterator[tuple[Path, str]]:
    if pipeline.pipeline.mode != "batch":
        return
    for name, source in pipeline.sources.items():
        if isinstance(source, RateSource):
            yield ("sources", name, "kind"), "a rate never ends: it is not for mode batch"
        elif isinstance(source, KafkaSource) and source.starting_offsets == "latest":
            reason = "a batch that begins at the latest offset reads nothing; allowed: earliest, or"
            yield ("sources", name, "starting_offsets"), f"{reason} offsets"
        if isinstance(source, KafkaSource) and source.rejects is not None:
            reason = "a batch has no checkpoint, and passes over no record"
            yield (
                ("sources", name, "rejects"),
                f"{reason}; allowed in modes stream and available_now",
            )


def _unavailable(pipeline: PipelineSpec) -> Iterator[tuple[Path, str]]:
    """Check that no sink of a database stores null for a value that is not known."""
    for name, sink in pipeline.sinks.items():
        if not isinstance(sink, TableSink):
            continue
        view = sink.source
        while isinstance(step := pipeline.steps.get(view), Filter):
            view = step.source
        is_kept = isinstance(step, Parse) and step.unavailable == "keep"
        if sink.keep_by is not None and not is_kept:
            reason = "the rows of a parse step with unavailable, and of filter steps after it, have"
            yield ("sinks", name, "keep_by"), f"{reason} the names of columns that are not known"
        elif sink.keep_by is None and is_kept:
            reason = (
                'keep_by = "unavailable" must be given: columns that are not known would be null'
            )
            yield ("sinks", name), reason


def _exactly_once(pipeline: PipelineSpec) -> Iterator[tuple[Path, str]]:
    """Check the sinks that write transactions."""
    for name, sink in pipeline.sinks.items():
        cluster = pipeline.clusters.get(sink.cluster) if isinstance(sink, KafkaSink) else None
        if not isinstance(sink, KafkaSink) or not sink.is_exactly_once or cluster is None:
            continue
        if pipeline.pipeline.mode == "batch":
            reason = "a batch has no checkpoint, so a run that is repeated writes all rows again"
            yield ("sinks", name, "delivery_guarantee"), f"{reason}; allowed: at_least_once"
        of_cluster = client_fault(cluster.options)
        if of_cluster is not None:
            reason = f"sink {name} is exactly_once and takes the properties of librdkafka"
            yield ("clusters", sink.cluster, "options"), f"{reason}: {of_cluster}"
            continue
        of_sink = client_fault({**cluster.options, **sink.options})
        if of_sink is not None:
            yield ("sinks", name, "options"), of_sink


def _source_rejects(pipeline: PipelineSpec) -> Iterator[tuple[Path, str]]:
    """Check that librdkafka, which reads and writes these records, takes the clusters' options."""
    for name, source in pipeline.sources.items():
        if not isinstance(source, KafkaSource) or source.rejects_cluster is None:
            continue
        for cluster in dict.fromkeys((source.cluster, source.rejects_cluster)):
            if cluster not in pipeline.clusters:
                continue
            fault = client_fault(pipeline.clusters[cluster].options)
            if fault is not None:
                reason = f"source {name} has rejects and takes the properties of librdkafka"
                yield ("clusters", cluster, "options"), f"{reason}: {fault}"


def _paths(pipeline: PipelineSpec) -> Iterator[tuple[Path, str]]:
    """Check that each folder has one writer: its commit log belongs to one query."""
    users = {
        normpath(source.path): f"source {name} reads"
        for name, source in pipeline.sources.items()
        if isinstance(source, FileSource)
    }
    for name, sink in pipeline.sinks.items():
        if isinstance(sink, FileSink):
            other = users.setdefault(normpath(sink.path), f"sink {name} writes")
            if other != f"sink {name} writes":
                yield ("sinks", name, "path"), f"{other} {sink.path!r} already; give another folder"


def _watermarks(pipeline: PipelineSpec) -> Iterator[tuple[Path, str]]:
    """Check that each path from a source to a sink has one watermark, before its first use.

    An anomalies step ends a watermark; after it a new one may be set.
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
        if not isinstance(step, WithWatermark):
            continue
        if step.watermark is not None and above is not None:
            reason = f"step {above} above has set the watermark already; leave it out here"
            yield ("steps", name, "watermark"), reason
        elif step.watermark is None and above is None and pipeline.pipeline.mode != "batch":
            if _is_plain(pipeline, step.source):
                yield ("steps", name), "a stream needs a watermark here: watermark = ..."
        if step.watermark is not None:
            set_by[name] = name


def _is_plain(pipeline: PipelineSpec, view: str) -> bool:
    """Whether a view has no query, function and join above it, whose watermarks are unknown."""
    while view in pipeline.steps:
        step = pipeline.steps[view]
        if isinstance(step, Sql | Join | Python):
            return False
        view = step.source
    return True


def _references(pipeline: PipelineSpec) -> Iterator[tuple[Path, str]]:
    """Check the names of clusters and registries."""
    parts: Iterable[tuple[Path, Part]] = [
        *((("sources", name), source) for name, source in pipeline.sources.items()),
        *((("steps", name), step) for name, step in pipeline.steps.items()),
        *((("sinks", name), sink) for name, sink in pipeline.sinks.items()),
    ]
    tables: dict[str, Mapping[str, Part]] = {
        "cluster": pipeline.clusters,
        "registry": pipeline.registries,
    }
    for key, what in (
        ("cluster", "cluster"),
        ("rejects_cluster", "cluster"),
        ("registry", "registry"),
    ):
        for where, part in parts:
            name = getattr(part, key, None)
            if name is not None and name not in tables[what]:
                yield (*where, key), _unknown(name, what, tables[what])


def _registries(pipeline: PipelineSpec) -> Iterator[tuple[Path, str]]:
    for name, step in pipeline.steps.items():
        if isinstance(step, Parse):
            is_newest = step.format == "avro" and step.row_schema is None and not step.subject
            if step.registry and is_newest and pipeline.topic_of(step.source) is None:
                yield ("steps", name), "subject must be given: there is not one topic above"
    for name, registry in pipeline.registries.items():
        fault = options_fault(registry)
        if fault is not None:
            yield ("registries", name, "options"), fault


def _unknown(name: str, what: str, existing: object) -> str:
    names = ", ".join(existing) if isinstance(existing, dict) and existing else "none"
    return f"{name!r} is not a {what}; there are: {names}"
