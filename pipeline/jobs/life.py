"""The life of a job: signals, metrics, the session, and one line on what ended it.

Exit codes: 0 done, or a stream that was told to stop; 1 failed; 2 the command line is wrong;
128 + signal when a job that ends by itself was stopped before its end.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from odradek.pipeline.causes import told
from odradek.pipeline.connectors import NoConnector
from odradek.pipeline.failures import PartFailed, quieten
from odradek.pipeline.jobs import mirror as mirrors
from odradek.pipeline.jobs import run
from odradek.pipeline.jobs.reach import (
    REACH_TIMEOUT_S,
    Addressed,
    Unreachable,
    check_clusters,
    watched,
)
from odradek.pipeline.jobs.stop import Stop, Stopped
from odradek.pipeline.metrics import serve
from odradek.pipeline.progress import Progress, record, show
from odradek.pipeline.session import close_session, open_session
from odradek.pipeline.spec import mirror as mirror_spec
from odradek.pipeline.spec import model
from odradek.pipeline.spec.event_time import remembering
from odradek.pipeline.spec.mirror import Mirror
from odradek.pipeline.spec.model import Pipeline

FAILED: Final = 1
BAD_COMMAND: Final = 2
LOCK: Final = "pipeline.lock"
"""File in a checkpoint folder; no query has a dot in its name, which is that of a folder there."""
STOP_TIMEOUT_MS: Final = 5_000
HEARD_TIMEOUT_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Choices:
    """What the command line says beside the file."""

    master: str | None = None
    jars: Path | None = None
    metrics: tuple[str, int] | None = None
    """Host and port for Prometheus."""
    progress_file: Path | None = None


class InUse(Exception):
    """Another process runs on this checkpoint."""


class SparkFailed(Exception):
    """Spark's work has ended; the text says why."""


class PortTaken(OSError):
    """The port for Prometheus is in use."""


FAILURES: Final = (
    PartFailed,
    SparkFailed,
    PySparkException,
    Py4JError,
    NoConnector,
    run.WrongCheckpoint,
    InUse,
    Unreachable,
    *mirrors.FAILURES,
    OSError,
)
"""What the world does to a job; an OSError also when Spark's Java process is gone."""


@dataclass(frozen=True, slots=True)
class Task:
    """What has a life: a pipeline, or a mirror.

    file      checkpoints are relative to its folder
    clusters  by their names in the file, which stand in its `table`
    opened    what is done before Spark starts, when the clusters answer
    work      with Spark, until it is done or `stop.asked`
    pipeline  whose topics are named where Kafka does not name them
    """

    file: Path
    head: model.Head | mirror_spec.Head
    needs: Iterable[str]
    clusters: Sequence[tuple[str, Addressed]]
    table: str
    opened: Callable[[], None]
    work: Callable[[SparkSession, Progress], None]
    pipeline: Pipeline | None = None


def run_file(pipeline: Pipeline, path: Path, choices: Choices) -> int:
    """Run a pipeline file until it ends or is stopped; returns the exit code."""
    stop = Stop()
    head = pipeline.pipeline
    folder = path.resolve().parent

    def work(spark: SparkSession, progress: Progress) -> None:
        built = run.build(spark, pipeline, folder)
        if head.mode == "batch":
            run.run_batch(pipeline, built, folder)
            return
        with stop.gently(), shown(spark, progress):
            queries = run.start_stream(pipeline, built, folder)
            run.wait(pipeline, queries, is_stopped=stop.asked.is_set, stopping=progress.stopping)

    task = Task(
        file=path,
        head=head,
        needs=run.needs(pipeline),
        clusters=list(pipeline.clusters.items()),
        table="clusters.",
        opened=lambda: None,
        work=work,
        pipeline=pipeline,
    )
    return _live(task, choices, stop)


def mirror_file(mirror: Mirror, path: Path, choices: Choices) -> int:
    """Run a mirror file until it ends or is stopped; returns the exit code."""
    stop = Stop()
    job = mirrors.Job(mirror, path.resolve().parent, stop=stop.asked)

    def work(spark: SparkSession, progress: Progress) -> None:
        # A thread of Spark that asks a source which is away hears of nothing for a minute.
        spark.conf.set("spark.sql.streaming.stopTimeout", STOP_TIMEOUT_MS)
        with stop.gently(), shown(spark, progress):
            job.start(spark)
            job.wait()

    task = Task(
        file=path,
        head=mirror.mirror,
        needs=mirrors.NEEDS,
        clusters=[("source", mirror.source), ("target", mirror.target)],
        table="",
        opened=job.open,
        work=work,
    )
    return _live(task, choices, stop)


def _live(task: Task, choices: Choices, stop: Stop) -> int:
    head = task.head
    try:
        with ExitStack() as stack:
            stack.enter_context(stop.installed())
            progress = _watched(task, choices, stop, stack)
            if head.checkpoint is not None:
                stack.enter_context(held(task.file.resolve().parent / head.checkpoint))
            check_clusters(task.clusters, table=task.table, timeout_s=REACH_TIMEOUT_S)
            task.opened()
            spark = open_session(
                head.name,
                needs=task.needs,
                master=choices.master,
                jars=choices.jars,
                settings=head.spark,
            )
            stack.callback(close_session, spark)
            stop.install()
            quieten(spark)
            try:
                with watched(task.clusters):
                    task.work(spark, progress)
            except (PySparkException, Py4JError) as error:
                # What Spark knows of its failure goes with its Java process.
                raise SparkFailed(told(error, task.pipeline)) from error
            except ConnectionError as error:
                raise SparkFailed(told(Py4JNetworkError())) from error
    except Stopped:
        pass
    except FAILURES as error:
        # Whatever breaks while Spark is being stopped is of the stopping.
        if not stop.asked.is_set():
            return _failed(error, task)
    if stop.asked.is_set() and head.mode != "stream":
        print(f"{task.file}: stopped before its end", file=sys.stderr)
        return 128 + stop.number
    return 0


def _failed(error: Exception, task: Task) -> int:
    if isinstance(error, PartFailed):
        print(error.told(task.file), file=sys.stderr)
    elif isinstance(error, PySparkException | Py4JError):
        print(f"{task.file}: {told(error, task.pipeline)}", file=sys.stderr)
    else:
        print(f"{task.file}: {error}", file=sys.stderr)
    return BAD_COMMAND if isinstance(error, PortTaken) else FAILED


@contextmanager
def shown(spark: SparkSession, progress: Progress) -> Iterator[None]:
    """Within, the progress of queries is shown; it ends when what they have said is heard.

    What was dropped is said in the end.
    """
    spark.streams.addListener(progress)
    try:
        with show(progress):
            try:
                yield
            finally:
                context: Any = spark.sparkContext._jsc
                with suppress(Py4JError, OSError):
                    context.sc().listenerBus().waitUntilEmpty(HEARD_TIMEOUT_MS)
    finally:
        for line in progress.losses():
            print(f"WARN {line}", file=sys.stderr)


def _watched(task: Task, choices: Choices, stop: Stop, stack: ExitStack) -> Progress:
    pipeline = task.pipeline
    progress = Progress(
        remembering=lambda query: [] if pipeline is None else remembering(pipeline, query),
        rejecting={} if pipeline is None else pipeline.rejecting(),
        is_stopping=stop.asked.is_set,
    )
    if choices.metrics is not None:
        host, port = choices.metrics
        try:
            stack.callback(serve(progress, port, host=host))
        except OSError as error:
            place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            raise PortTaken(f"--metrics-port: {place} cannot be had: {error.strerror}") from error
    if choices.progress_file is not None:
        record(progress, choices.progress_file)
    return progress


@contextmanager
def held(checkpoint: Path) -> Iterator[None]:
    """A checkpoint is used by one process at a time; the kernel drops the lock with its holder.

    raises  InUse; OSError
    """
    checkpoint.mkdir(parents=True, exist_ok=True)
    with open(checkpoint / LOCK, "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(f"another process runs on the checkpoint {checkpoint}") from None
        yield
