"""Runs a job: signals, metrics, the Spark session, and one line on a failure.

Exit codes: 0 done, or a stream that was stopped; 1 failed; 2 invalid command line; 128 + signal
when a job that ends by itself was stopped before its end.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import mirror as mirrors
from odradek.pipeline.jobs import run
from odradek.pipeline.jobs.reachability import (
    REACH_TIMEOUT_S,
    Addressed,
    Unreachable,
    check_clusters,
    report_availability,
)
from odradek.pipeline.jobs.stop import Stop, Stopped
from odradek.pipeline.report.causes import error_line
from odradek.pipeline.report.failures import PartFailed, quieten
from odradek.pipeline.report.metrics import serve
from odradek.pipeline.report.progress import Progress, record, show
from odradek.pipeline.spark.connectors import NoConnector
from odradek.pipeline.spark.gateway import java_context
from odradek.pipeline.spark.session import close_session, open_session
from odradek.pipeline.spec import mirror as mirror_spec
from odradek.pipeline.spec import model
from odradek.pipeline.spec.event_time import stateful_steps
from odradek.pipeline.spec.mirror import Mirror
from odradek.pipeline.spec.model import PipelineSpec

FAILED: Final = 1
BAD_COMMAND: Final = 2
LOCK: Final = "pipeline.lock"
"""Lock file in a checkpoint folder; its name cannot be a query's, which has no dot."""
STOP_TIMEOUT_MS: Final = 5_000
EVENTS_TIMEOUT_MS: Final = 30_000
"""For the last progress of queries that have ended: on a busy machine it comes late."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Options of the command line."""

    master: str | None = None
    jars: Path | None = None
    metrics: tuple[str, int] | None = None
    """Host and port at which Prometheus is served."""
    progress_file: Path | None = None


class CheckpointInUse(Exception):
    """Another process uses this checkpoint."""


class SparkFailed(Exception):
    """Spark failed; the message gives the reason."""


class PortTaken(OSError):
    """The port for Prometheus is in use."""


FAILURES: Final = (
    PartFailed,
    SparkFailed,
    PySparkException,
    Py4JError,
    NoConnector,
    run.WrongCheckpoint,
    CheckpointInUse,
    Unreachable,
    *mirrors.FAILURES,
    OSError,
)
"""Failures that are reported in one line; OSError also when Spark's Java process has ended."""


@dataclass(frozen=True, slots=True)
class Job:
    """A pipeline or a mirror as the functions to run.

    file      the pipeline or mirror file; checkpoints are relative to its folder
    clusters  by their names in the table `table` of the file
    open      called before Spark starts, once the clusters respond
    work      uses Spark until it is done or `stop.requested`
    pipeline  its topics are named where the error of Kafka has no name
    """

    file: Path
    head: model.Head | mirror_spec.MirrorHead
    needs: Iterable[str]
    clusters: Sequence[tuple[str, Addressed]]
    table: str
    open: Callable[[], None]
    work: Callable[[SparkSession, Progress], None]
    pipeline: PipelineSpec | None = None


def run_file(pipeline: PipelineSpec, path: Path, choices: Choices) -> int:
    """Run a pipeline file until it ends or is stopped; returns the exit code."""
    stop = Stop()
    head = pipeline.pipeline
    folder = path.resolve().parent

    def warn(failure: PartFailed, what_next: str) -> None:
        print(f"WARN {failure.line_of(path)}; {what_next}", file=sys.stderr)

    def work(spark: SparkSession, progress: Progress) -> None:
        built = run.build(spark, pipeline, folder)
        if head.mode == "batch":
            run.run_batch(built)
            return
        with stop.deferred(), progress_shown(spark, progress):
            run.run_stream(
                built,
                say=warn,
                is_stopped=stop.requested.is_set,
                stopping=progress.stopping,
                count=progress.count_dead_letters,
            )

    job = Job(
        file=path,
        head=head,
        needs=run.needs(pipeline),
        clusters=list(pipeline.clusters.items()),
        table="clusters.",
        open=lambda: None,
        work=work,
        pipeline=pipeline,
    )
    return _run(job, choices, stop)


def mirror_file(mirror: Mirror, path: Path, choices: Choices) -> int:
    """Run a mirror file until it ends or is stopped; returns the exit code."""
    stop = Stop()
    mirroring = mirrors.MirrorJob(mirror, path.resolve().parent, stop=stop.requested)

    def work(spark: SparkSession, progress: Progress) -> None:
        # A thread of Spark that waits for an unavailable source ignores a stop for a minute.
        spark.conf.set("spark.sql.streaming.stopTimeout", STOP_TIMEOUT_MS)
        with stop.deferred(), progress_shown(spark, progress):
            mirroring.start(spark)
            mirroring.wait()

    job = Job(
        file=path,
        head=mirror.mirror,
        needs=mirrors.NEEDS,
        clusters=[("source", mirror.source), ("target", mirror.target)],
        table="",
        open=mirroring.open,
        work=work,
    )
    return _run(job, choices, stop)


def _run(job: Job, choices: Choices, stop: Stop) -> int:
    head = job.head
    try:
        with ExitStack() as stack:
            stack.enter_context(stop.installed())
            progress = _progress(job, choices, stop, stack)
            if head.checkpoint is not None:
                stack.enter_context(locked(job.file.resolve().parent / head.checkpoint))
            check_clusters(job.clusters, table=job.table, timeout_s=REACH_TIMEOUT_S)
            job.open()
            spark = open_session(
                head.name,
                needs=job.needs,
                master=choices.master,
                jars=choices.jars,
                settings=head.spark,
            )
            stack.callback(close_session, spark)
            stop.install()
            quieten(spark)
            if spark.sparkContext.uiWebUrl is not None:
                print(f"Spark UI: {spark.sparkContext.uiWebUrl}", file=sys.stderr)
            try:
                with report_availability(job.clusters, progress.available):
                    job.work(spark, progress)
            except (PySparkException, Py4JError) as error:
                # Read the causes before the Java process ends.
                raise SparkFailed(error_line(error, job.pipeline)) from error
            except ConnectionError as error:
                raise SparkFailed(error_line(Py4JNetworkError())) from error
    except Stopped:
        pass
    except FAILURES as error:
        # While Spark stops, failures are a consequence of the stop.
        if not stop.requested.is_set():
            return _report(error, job)
    if stop.requested.is_set() and head.mode != "stream":
        print(f"{job.file}: stopped before its end", file=sys.stderr)
        return 128 + stop.number
    return 0


def _report(error: Exception, job: Job) -> int:
    if isinstance(error, PartFailed):
        print(error.line_of(job.file), file=sys.stderr)
    elif isinstance(error, PySparkException | Py4JError):
        print(f"{job.file}: {error_line(error, job.pipeline)}", file=sys.stderr)
    else:
        print(f"{job.file}: {error}", file=sys.stderr)
    return BAD_COMMAND if isinstance(error, PortTaken) else FAILED


@contextmanager
def progress_shown(spark: SparkSession, progress: Progress) -> Iterator[None]:
    """Within, show the progress of queries; at the end wait for its last events.

    Then print a warning for each step that has dropped rows.
    """
    spark.streams.addListener(progress)
    try:
        with show(progress):
            try:
                yield
            finally:
                _await_events(spark)
    finally:
        for line in progress.losses():
            print(f"WARN {line}", file=sys.stderr)


def _await_events(spark: SparkSession) -> None:
    """Wait for the last events of Spark, unless it has ended already."""
    context = java_context(spark)
    # To ask for the text of an error is a call of Spark, too.
    with suppress(Py4JError, OSError):
        try:
            context.sc().listenerBus().waitUntilEmpty(EVENTS_TIMEOUT_MS)
        except Py4JJavaError as error:
            if "TimeoutException" in str(error.java_exception):
                print(
                    f"WARN the last progress did not come within {EVENTS_TIMEOUT_MS} ms: what was"
                    " printed, recorded and counted lacks it",
                    file=sys.stderr,
                )


def _progress(job: Job, choices: Choices, stop: Stop, stack: ExitStack) -> Progress:
    pipeline = job.pipeline
    progress = Progress(
        stateful_steps=lambda query: [] if pipeline is None else stateful_steps(pipeline, query),
        dead_letter_steps={} if pipeline is None else pipeline.dead_letter_steps(),
        is_stopping=stop.requested.is_set,
    )
    if choices.metrics is not None:
        host, port = choices.metrics
        try:
            stack.callback(serve(progress, port, host=host))
        except OSError as error:
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            raise PortTaken(
                f"--metrics-port: {address} cannot be used: {error.strerror}"
            ) from error
    if choices.progress_file is not None:
        record(progress, choices.progress_file)
    return progress


@contextmanager
def locked(checkpoint: Path) -> Iterator[None]:
    """Within, lock the checkpoint folder; the kernel releases the lock when the process ends.

    raises  CheckpointInUse; OSError
    """
    checkpoint.mkdir(parents=True, exist_ok=True)
    with open(checkpoint / LOCK, "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CheckpointInUse(f"another process uses the checkpoint {checkpoint}") from None
        yield
