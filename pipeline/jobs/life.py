"""The life of a job: signals, metrics, the session, and one line on what ended it.

Exit codes: 0 done, or a stream that was told to stop; 1 failed; 2 the command line is wrong;
128 + signal when a job that ends by itself was stopped before its end.
"""

from __future__ import annotations

import fcntl
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipeline.causes import told
from pipeline.failures import PartFailed, quieten
from pipeline.jobs import run
from pipeline.progress import Progress, record, serve, show
from pipeline.session import NoConnector, close_session, open_session
from pipeline.spec.ends import Cluster
from pipeline.spec.model import Pipeline

FAILED: Final = 1
BAD_COMMAND: Final = 2
REACH_TIMEOUT_S: Final = 10.0
"""How long a cluster may be away when a job begins: a broker that restarts."""
LOCK: Final = "lock"
"""File in a checkpoint folder."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Choices:
    """What the command line says beside the file."""

    master: str | None = None
    jars: Path | None = None
    metrics_port: int | None = None
    progress_file: Path | None = None


class InUse(Exception):
    """Another process runs on this checkpoint."""


class Unreachable(Exception):
    """A cluster of which no broker answers."""


class PortTaken(OSError):
    """The port for Prometheus is in use."""


class Stopped(BaseException):
    """A signal came while nothing could be ended gently."""


class Stop:
    """What SIGTERM and SIGINT do: they interrupt, or while `gently`, they are only noted."""

    def __init__(self) -> None:
        self.asked: Final = Event()
        self.number = 0
        self._is_gentle = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Within, signals come here; afterwards what was there before is back."""
        before = {number: signal.getsignal(number) for number in SIGNALS}
        self.install()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def install(self) -> None:
        """Spark puts a handler of its own in place when it starts: call it after that again."""
        for number in SIGNALS:
            signal.signal(number, self._handle)

    def _handle(self, number: int, _: Any) -> None:
        self.number = number
        is_first = not self.asked.is_set()
        self.asked.set()
        if not (self._is_gentle and is_first):
            raise Stopped

    @contextmanager
    def gently(self) -> Iterator[None]:
        """Within, the first signal only sets `asked`."""
        self._is_gentle = True
        try:
            yield
        finally:
            self._is_gentle = False


FAILURES: Final = (
    PartFailed,
    PySparkException,
    Py4JError,
    NoConnector,
    run.WrongCheckpoint,
    InUse,
    Unreachable,
    OSError,
)
"""What the world does to a job; an OSError also when Spark's Java process is gone."""


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
        spark.streams.addListener(progress)
        with stop.gently(), show(progress):
            queries = run.start_stream(pipeline, built, folder)
            run.wait(pipeline, queries, is_stopped=stop.asked.is_set)

    try:
        with ExitStack() as stack:
            stack.enter_context(stop.installed())
            progress = _watched(choices, stack)
            if head.checkpoint is not None:
                stack.enter_context(held(folder / head.checkpoint))
            check_clusters(pipeline.clusters.items())
            spark = open_session(
                head.name,
                needs=run.needs(pipeline),
                master=choices.master,
                jars=choices.jars,
                settings=head.spark,
            )
            stack.callback(close_session, spark)
            stop.install()
            quieten(spark)
            work(spark, progress)
    except Stopped:
        pass
    except FAILURES as error:
        # Whatever breaks while Spark is being stopped is of the stopping.
        if not stop.asked.is_set():
            return _failed(error, pipeline, path)
    if stop.asked.is_set() and head.mode != "stream":
        print(f"{path}: stopped before its end", file=sys.stderr)
        return 128 + stop.number
    return 0


def _failed(error: Exception, pipeline: Pipeline, path: Path) -> int:
    if isinstance(error, PartFailed):
        print(error.told(path), file=sys.stderr)
    elif isinstance(error, PySparkException | Py4JError):
        print(f"{path}: {told(error, pipeline)}", file=sys.stderr)
    else:
        print(f"{path}: {error}", file=sys.stderr)
    return BAD_COMMAND if isinstance(error, PortTaken) else FAILED


def _watched(choices: Choices, stack: ExitStack) -> Progress:
    progress = Progress()
    if choices.metrics_port is not None:
        try:
            stack.callback(serve(progress, choices.metrics_port))
        except OSError as error:
            place = f"127.0.0.1:{choices.metrics_port}"
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


def check_clusters(
    clusters: Iterable[tuple[str, Cluster]],
    *,
    timeout_s: float = REACH_TIMEOUT_S,
    wait: Callable[[float], object] = time.sleep,
) -> None:
    """See that of each cluster one broker takes connections: Spark would ask for minutes.

    raises  Unreachable
    """
    deadline_s = time.monotonic() + timeout_s
    for name, cluster in clusters:
        while True:
            refused = [_refusal(one.strip()) for one in cluster.bootstrap_servers.split(",")]
            if None in refused:
                break
            if time.monotonic() >= deadline_s:
                said = "; ".join(one for one in refused if one is not None)
                raise Unreachable(f"clusters.{name}: no broker answers: {said}")
            wait(0.2)


def _refusal(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return f"{address!r} is no HOST:PORT"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=2.0).close()
    except OSError as error:
        return f"{address}: {error.strerror or error}"
    return None
