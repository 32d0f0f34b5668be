"""Runs a pipeline file: views of sources and steps, a query for each sink."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path as FilePath
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from odradek.bounded_parsing import UnreadableText, parse_json
from odradek.pipeline.jobs.built import Built
from odradek.pipeline.jobs.lookup_tables import lookup_tables, restart_after
from odradek.pipeline.jobs.record_skipper import RecordSkipper
from odradek.pipeline.jobs.restarts import Restarts
from odradek.pipeline.jobs.sharing import SharedBatches, blamed, check_stateless, place_of
from odradek.pipeline.jobs.topic_identities import TopicIdentities
from odradek.pipeline.offset_log import write_durably
from odradek.pipeline.report.causes import has_overflow, lacks_topic
from odradek.pipeline.report.failures import PartFailed, part
from odradek.pipeline.sinks.write import SinkQuery, start_writer, writer_of
from odradek.pipeline.sources.read import read as read_source
from odradek.pipeline.sources.unreadable_records import RecordsFailed
from odradek.pipeline.spark.connectors import LAKES, PACKAGE, S3
from odradek.pipeline.spec.bounded_files import read_bytes
from odradek.pipeline.spec.ends import database_of
from odradek.pipeline.spec.event_time import event_times
from odradek.pipeline.spec.key_lines import Path
from odradek.pipeline.spec.model import REJECTS, PipelineSpec
from odradek.pipeline.spec.parse_step import Parse
from odradek.pipeline.spec.sharing import SharedQuery, shared_queries
from odradek.pipeline.spec.sinks import KafkaSink, Sink, SparkSink, TableSink
from odradek.pipeline.spec.sources import KafkaSource, SparkSource, TableSource
from odradek.pipeline.spec.steps import AnyStep
from odradek.pipeline.topics import absent, said_of_unreadable, topics_read, unreadable_record
from odradek.pipeline.transforms.apply import apply
from odradek.pipeline.transforms.parse import Decoding
from odradek.pipeline.transforms.times import Bound

IDENTITY: Final = "pipeline.json"
"""The file that identifies the pipeline of a checkpoint folder."""
PER_SINK: Final = "per_sink"
"""In this file, a checkpoint whose queries have one sink each, and in which it may be missing."""
ROUND_S: Final = 1.0
"""Interval of the checks of each query."""


CountDeadLetters = Callable[[str, str, int], object]


def _uncounted(query: str, step: str, number: int) -> None:
    """Count nothing."""


class WrongCheckpoint(Exception):
    """The checkpoint folder belongs to another pipeline."""


def needs(pipeline: PipelineSpec) -> Iterator[str]:
    """The connectors that a pipeline uses: elements of `connectors.NEEDS`, or `jdbc:DATABASE`."""
    for end in (*pipeline.sources.values(), *pipeline.sinks.values()):
        if isinstance(end, KafkaSource | KafkaSink):
            yield "kafka"
        elif isinstance(end, TableSource | TableSink):
            yield f"jdbc:{database_of(end.url)}"
        elif isinstance(end, SparkSource | SparkSink):
            yield from (f"{PACKAGE}{package}" for package in end.packages)
            if end.format in LAKES and not end.packages:
                yield end.format
        place = getattr(end, "path", None)
        if place is not None and place.startswith("s3a:"):
            yield S3
    if pipeline.dead_letter_steps():
        yield "kafka"
    steps = pipeline.steps.values()
    if any(isinstance(step, Parse) and not step.is_text for step in steps) or any(
        isinstance(sink, KafkaSink) and sink.format == "avro" for sink in pipeline.sinks.values()
    ):
        yield "avro"


def build(spark: SparkSession, pipeline: PipelineSpec, folder: FilePath) -> Built:
    """Create the views of sources and steps; nothing runs yet.

    folder  the folder of the pipeline file
    raises  PartFailed for a part that does not fit its input, and for a missing topic
    """
    _check_topics(spark, pipeline)
    return build_from(
        spark,
        pipeline,
        folder,
        lambda name: read_source(
            spark, pipeline.sources[name], pipeline.clusters, pipeline.pipeline, folder
        ),
    )


def build_from(
    spark: SparkSession, pipeline: PipelineSpec, folder: FilePath, read: Callable[[str], DataFrame]
) -> Built:
    """Create the views of sources and steps.

    read    returns the rows of a source by its name
    raises  PartFailed for a part that does not fit its input
    """
    views: dict[str, DataFrame] = {}
    outputs: dict[str, tuple[DataFrame, Sink]] = {}
    for name in pipeline.sources:
        with part(("sources", name), pipeline):
            views[name] = read(name)
            views[name].createOrReplaceTempView(name)
    times = event_times(pipeline)
    decodings: dict[str, Decoding] = {}
    for name, step in pipeline.steps.items():
        with part(("steps", name), pipeline):
            bound = Bound(name, pipeline.pipeline.ahead_max, times.get(name, ()))
            decoding = _decoding(pipeline, step, folder)
            if decoding is not None:
                decodings[name] = decoding
            applied = apply(spark, step, views, folder, bound, decoding)
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
            outputs[name + REJECTS] = (applied.rejects, dead_letters)
    for name, sink in pipeline.sinks.items():
        outputs[name] = (views[sink.source], sink)
    return Built(pipeline, folder, outputs, views, decodings)


def _decoding(pipeline: PipelineSpec, step: AnyStep, folder: FilePath) -> Decoding | None:
    if not isinstance(step, Parse) or (step.format != "protobuf" and step.registry is None):
        return None
    # Imported here: most pipelines need none of its libraries.
    from odradek.pipeline.registry.reading import decoding_of

    return decoding_of(step, pipeline.registries, pipeline.topic_of(step.source), folder)


def _check_topics(spark: SparkSession, pipeline: PipelineSpec) -> None:
    missing = absent(spark, pipeline)
    if missing is not None:
        raise PartFailed(*missing)


def claim(pipeline: PipelineSpec, folder: FilePath) -> FilePath:
    """Create or check the checkpoint folder of a pipeline; returns it.

    raises  WrongCheckpoint; OSError
    """
    assert pipeline.pipeline.checkpoint is not None, "a stream has a checkpoint"
    mine: dict[str, object] = {
        "pipeline": pipeline.pipeline.name,
        "sources": {
            name: source.model_dump(include={"kind", "cluster", "subscribe", "pattern", "path"})
            for name, source in pipeline.sources.items()
        },
        "queries": {query.name: sorted(query.outputs) for query in shared_queries(pipeline)}
        or PER_SINK,
    }
    return claim_folder(folder / pipeline.pipeline.checkpoint, mine)


def claim_folder(checkpoint: FilePath, mine: Mapping[str, object]) -> FilePath:
    """Create a checkpoint folder with the identity `mine`, or check that it has this identity.

    raises  WrongCheckpoint; OSError
    """
    checkpoint.mkdir(parents=True, exist_ok=True)
    identity = checkpoint / IDENTITY
    if identity.exists():
        try:
            theirs = {"queries": PER_SINK, **parse_json(read_bytes(identity))}
        except (TypeError, UnreadableText) as error:
            raise WrongCheckpoint(f"{identity} cannot be read: {error}") from error
        for key, value in mine.items():
            if theirs.get(key) != parse_json(json.dumps(value)):
                whose = f"{checkpoint} is the checkpoint of pipeline {theirs.get('pipeline')!r}"
                if key == "pipeline":
                    differs = f", and this one is {value!r}"
                else:
                    there, here = json.dumps(theirs.get(key)), json.dumps(value)
                    differs = f", whose {key} were others: there {there}, here {here}"
                raise WrongCheckpoint(
                    f"{whose}{differs}; give another checkpoint folder, or remove this one to begin"
                    " again"
                )
    else:
        write_durably(identity, json.dumps(mine, indent=2) + "\n")
    return checkpoint


def run_batch(built: Built) -> None:
    """Write all sinks, one after the other.

    raises  PartFailed
    """
    pipeline = built.pipeline
    for name, (rows, sink) in built.outputs.items():
        with part(_where(pipeline, name), pipeline):
            writer_of(sink, pipeline, built.folder).write(rows)


def _where(pipeline: PipelineSpec, name: str) -> Path:
    """The part of a query: its sink, its first one, or the step whose dead letters it writes."""
    shared = _shared_query(pipeline, name)
    return place_of(pipeline, name if shared is None else shared.outputs[-1])


def _shared_query(pipeline: PipelineSpec, name: str) -> SharedQuery | None:
    return next((query for query in shared_queries(pipeline) if query.name == name), None)


def _query_names(built: Built) -> list[str]:
    """The queries of a stream: shared ones, then those of one sink."""
    shared = shared_queries(built.pipeline)
    are_shared = {name for query in shared for name in query.outputs}
    return [
        *(query.name for query in shared),
        *(name for name in built.outputs if name not in are_shared),
    ]


def start_stream(built: Built, count: CountDeadLetters = _uncounted) -> list[StreamingQuery]:
    """Start the queries: one for each sink, or for the sinks that share one.

    count   see `run_stream`
    raises  PartFailed, WrongCheckpoint
    """
    claim(built.pipeline, built.folder)
    queries: list[StreamingQuery] = []
    try:
        for name in _query_names(built):
            query = start_query(built, name, count)
            queries.append(query)
    except PartFailed:
        for query in queries:
            query.stop()
        raise
    return queries


def run_stream(
    built: Built,
    *,
    say: Callable[[PartFailed, str], object],
    is_stopped: Callable[[], bool] = lambda: False,
    stopping: Callable[[str], object] = lambda query: None,
    count: CountDeadLetters = _uncounted,
) -> None:
    """Start all queries, and wait as `wait` does; failed ones start again where the file says so.

    count   called with the dead letters of each batch of a shared query: query, parse step, number
    say     called with a failure and what follows
    raises  PartFailed, WrongCheckpoint
    """

    def start_again(name: str) -> StreamingQuery:
        return start_query(built, name, count)

    pipeline = built.pipeline
    checkpoint = claim(pipeline, built.folder)
    spark = next(iter(built.views.values())).sparkSession
    with TopicIdentities(spark, pipeline, checkpoint) as topics, lookup_tables(built, say):
        topics.check()
        wait(
            pipeline,
            start_stream(built, count),
            topics=topics,
            restarts=Restarts(pipeline, start_again, say, partial(restart_after, built)),
            skipper=RecordSkipper(pipeline, checkpoint),
            is_stopped=is_stopped,
            stopping=stopping,
        )


def start_query(built: Built, name: str, count: CountDeadLetters) -> StreamingQuery:
    """Start one query, whose checkpoint has been claimed.

    raises  PartFailed
    """
    pipeline = built.pipeline
    head = pipeline.pipeline
    assert head.checkpoint is not None, "a stream has a checkpoint"
    shared = _shared_query(pipeline, name)
    if shared is not None:
        return _start_shared(built, shared, count)
    rows, sink = built.outputs[name]
    with part(_where(pipeline, name), pipeline):
        query = SinkQuery(name, str(built.folder / head.checkpoint / name))
        stream = writer_of(sink, pipeline, built.folder).stream(rows, query)
        # A query writes a table of a catalog itself.
        table = sink.table if isinstance(sink, SparkSink) and not sink.foreach_batch else None
        return start_writer(stream, head, name=name, checkpoint=query.checkpoint, table=table)


def _start_shared(built: Built, query: SharedQuery, count: CountDeadLetters) -> StreamingQuery:
    """raises  PartFailed"""
    pipeline = built.pipeline
    head = pipeline.pipeline
    assert head.checkpoint is not None, "a stream has a checkpoint"
    checkpoint = built.folder / head.checkpoint / query.name
    rows = {name: built.outputs[name][0] for name in query.outputs}
    sinks = {name: built.outputs[name][1] for name in query.outputs}
    view = built.views[query.view]
    check_stateless(pipeline, query, view, rows)
    writers = {}
    for name, sink in sinks.items():
        with part(place_of(pipeline, name), pipeline):
            writer = writer_of(sink, pipeline, built.folder)
            writers[name] = writer.batches(
                rows[name], SinkQuery(name, str(checkpoint), is_shared=True)
            )
    batches = SharedBatches(
        built,
        query,
        writers=writers,
        checkpoint=checkpoint,
        count=lambda step, number: count(query.name, step, number),
    )
    with part(_where(pipeline, query.name), pipeline):
        stream = view.writeStream.outputMode(query.output_mode).foreachBatch(batches)
        return start_writer(stream, head, name=query.name, checkpoint=str(checkpoint))


def wait(
    pipeline: PipelineSpec,
    queries: list[StreamingQuery],
    *,
    topics: TopicIdentities | None = None,
    restarts: Restarts | None = None,
    skipper: RecordSkipper | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
    stopping: Callable[[str], object] = lambda query: None,
) -> None:
    """Wait until all queries have ended, one has failed, or a stop is requested; stop the others.

    A batch in progress is abandoned and repeated by the next run.

    topics    whose change of a topic's id ends all queries; None: not checked
    restarts  starts failed queries again; None: the first failure is the end
    skipper   passes over records that Spark cannot read, with `restarts`; None: they are failures
    stopping  called with the name of each query before it is stopped

    raises  PartFailed
    """
    running = list(queries)
    try:
        while running and not is_stopped():
            running = [
                query
                for query in running
                if not _has_ended(pipeline, query, len(running), restarts, topics, skipper)
            ]
            if topics is not None:
                topics.check_if_due()
            while restarts is not None and restarts.is_pending and not is_stopped():
                started = restarts.start_next()
                if started is not None:
                    running.append(started)
                elif running:
                    break
                else:
                    restarts.pause()
    finally:
        for query in running:
            if query.isActive:
                stopping(query.name)
            query.stop()


def _has_ended(
    pipeline: PipelineSpec,
    query: StreamingQuery,
    count: int,
    restarts: Restarts | None,
    topics: TopicIdentities | None,
    skipper: RecordSkipper | None,
) -> bool:
    """Whether a query has ended, or is to be started again; waits for at most ROUND_S / count.

    count  number of queries that are checked in each round
    raises PartFailed
    """
    timeout_s: Any = ROUND_S / count  # Spark accepts fractions of a second, despite its type hint.
    try:
        with part(_where(pipeline, query.name), pipeline):
            return bool(query.awaitTermination(timeout_s))
    except PartFailed as failure:
        spark, cause = SparkSession.getActiveSession(), failure.__cause__
        if topics is not None:
            # Spark reports lost records when a topic that was created again has fewer of them.
            topics.check()
        if spark is not None and has_overflow(cause):
            failure = _unreadable(spark, pipeline, failure)
            if skipper is not None and restarts is not None:
                try:
                    if _is_skipped(skipper, restarts, query.name, failure):
                        return True
                except (RecordsFailed, OSError) as reason:
                    text = f"{failure.reason}; it is not passed over: {reason}"
                    failure = PartFailed(failure.where, text)
        error = blamed(failure)
        if restarts is not None and restarts.postpone(
            query.name, error, has_worked=query.lastProgress is not None
        ):
            return True
        if spark is not None and lacks_topic(cause):
            # A topic has been deleted meanwhile: look up which one.
            _check_topics(spark, pipeline)
        raise error from cause


def _is_skipped(
    skipper: RecordSkipper, restarts: Restarts, query: str, failure: PartFailed
) -> bool:
    """raises  RecordsFailed, OSError"""
    skipped = skipper.skip_unreadable(query)
    if skipped is None:
        return False
    if skipped.rejected:
        what_next = f"dead letters in {skipped.topic}: {skipped.rejected}; starts again after them"
    else:
        what_next = "starts again with the records before it"
    restarts.start_again(
        query, PartFailed(failure.where, said_of_unreadable(skipped.first)), what_next
    )
    return True


def _unreadable(spark: SparkSession, pipeline: PipelineSpec, failure: PartFailed) -> PartFailed:
    """The failure of a source with a record that Spark cannot read; or the failure itself."""
    for name, source in pipeline.sources.items():
        if isinstance(source, KafkaSource):
            cluster = pipeline.clusters[source.cluster]
            topics = topics_read(spark, cluster, source)
            record = unreadable_record(spark, cluster, topics)
            if record is not None:
                return PartFailed(("sources", name), said_of_unreadable(record))
    return failure
