"""Keeps the static folders of a stream in memory, and reads them again from time to time.

Spark would list a folder once, and fail in the first batch after a listed file was removed.  Each
batch has the rows in memory instead, whatever happens to the files meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from odradek.pipeline.jobs.built import Built
from odradek.pipeline.report.causes import messages
from odradek.pipeline.report.failures import PartFailed, part
from odradek.pipeline.spark.gateway import file_system
from odradek.pipeline.spark.options import resolve_path
from odradek.pipeline.spec.field_types import duration_ms
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.sinks import Restart
from odradek.pipeline.spec.sources import FileSource

ATTEMPTS_MAX: Final = 3
"""How often a folder is read whose files change meanwhile."""
RESTART: Final = Restart(attempts_max=ATTEMPTS_MAX)
"""Restart of a query whose batch has read a file that was removed or replaced at this moment."""


@dataclass(slots=True)
class LookupTable:
    """A folder as a table.

    path         as Spark reads it
    interval_ms  None: it is read once
    due_ms       when it is read again, by the monotonic clock
    """

    name: str
    rows: DataFrame
    path: str
    interval_ms: int | None
    due_ms: int = 0
    _files: list[tuple[str, int, int]] | None = None

    def read(self) -> None:
        """List the folder, and read its files again if they have changed.

        raises  PySparkException, Py4JError when it cannot be read
        """
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                files = self._listed()
                if files != self._files:
                    # Until the count has succeeded, no list says what is in memory.
                    self._files = None
                    # It lists the folder, and drops the rows in memory, which the count reads.
                    self.rows.sparkSession.catalog.refreshByPath(self.path)
                    self.rows.count()
                    self._files = files
                return
            except (PySparkException, Py4JError):
                # A file was removed or replaced while the folder was listed, or after that.
                if attempt == ATTEMPTS_MAX:
                    raise

    def _listed(self) -> list[tuple[str, int, int]]:
        """Path, size and time of each file."""
        spark = self.rows.sparkSession
        system, path = file_system(spark, self.path)
        statuses = system.listFiles(path, True)
        files = []
        while statuses.hasNext():
            status = statuses.next()
            path_text = status.getPath().toString()
            files.append((path_text, status.getLen(), status.getModificationTime()))
        return sorted(files)


@contextmanager
def lookup_tables(built: Built, say: Callable[[PartFailed, str], object]) -> Iterator[None]:
    """Within, keep the static folders of a stream in memory, and read them when they are due.

    say     called with a folder that cannot be read, and what follows
    raises  PartFailed for one that cannot be read at first
    """
    pipeline = built.pipeline
    tables: list[LookupTable] = []
    ended = threading.Event()
    reader = threading.Thread(
        target=lambda: _read_when_due(pipeline, tables, ended, say), name="lookup-tables"
    )
    try:
        for name, source in pipeline.sources.items():
            if not isinstance(source, FileSource) or not source.static:
                continue
            with part(("sources", name), pipeline):
                every_ms = None if source.refresh is None else duration_ms(source.refresh)
                path = resolve_path(built.folder, source.path)
                tables.append(LookupTable(name, built.views[name].persist(), path, every_ms))
                tables[-1].read()
                tables[-1].due_ms = _now_ms() + (every_ms or 0)
        if any(table.interval_ms is not None for table in tables):
            reader.start()
        yield
    finally:
        ended.set()
        if reader.ident is not None:
            reader.join()
        for table in tables:
            with suppress(PySparkException, Py4JError, OSError):
                table.rows.unpersist()


def restart_after(built: Built, failure: PartFailed) -> Restart | None:
    """The policy after a failure that names a file of a static folder, such as a removed one.

    A batch that was planned before its folder was read again reads the files of the old list.
    """
    cause = failure.__cause__
    whole = "\n".join([failure.reason, *([] if cause is None else messages(cause))])
    is_named = any(
        resolve_path(built.folder, source.path) in whole
        for source in built.pipeline.sources.values()
        if isinstance(source, FileSource) and source.static
    )
    return RESTART if is_named else None


def _read_when_due(
    pipeline: PipelineSpec,
    tables: list[LookupTable],
    ended: threading.Event,
    say: Callable[[PartFailed, str], object],
) -> None:
    read_again = [candidate for candidate in tables if candidate.interval_ms is not None]
    while True:
        table = min(read_again, key=lambda candidate: candidate.due_ms)
        if ended.wait(max(table.due_ms - _now_ms(), 0) / 1_000):
            return
        try:
            with part(("sources", table.name), pipeline):
                table.read()
        except PartFailed as failure:
            if not ended.is_set():
                say(failure, f"is read again in {(table.interval_ms or 0) / 1_000:g} s")
        except OSError:
            # The Java process has ended.
            return
        table.due_ms = _now_ms() + (table.interval_ms or 0)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
