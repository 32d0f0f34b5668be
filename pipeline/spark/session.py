"""The Spark session of a pipeline: connectors of the installed version, loopback when local."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from odradek.pipeline.spark.connectors import (
    EXTENSIONS,
    NoConnector,
    cache,
    ivy_settings,
    missing,
    packages,
    replaced,
)
from odradek.pipeline.spark.connectors import settings as connector_settings
from odradek.pipeline.spark.java import LaunchFailed, StartLog, end, launch
from odradek.pipeline.spec.field_types import text_of_option

STOPPED: Final = "Cannot call methods on a stopped SparkContext"
"""The error of a session that could not register with its master."""
JARS: Final = "spark.jars"
PACKAGES: Final = "spark.jars.packages"
EXCLUDES: Final = "spark.jars.excludes"
LIST_SETTINGS: Final = (JARS, PACKAGES, EXCLUDES, EXTENSIONS)
RESOLVED: Final = (JARS, PACKAGES, EXCLUDES)
"""Settings that are lists: the values of the pipeline file are appended to ours."""

LOCAL: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.metricsEnabled": "true",
    "spark.ui.showConsoleProgress": "false",
    # Warnings of PySpark, which concatenates frames for stateful functions.
    "spark.executorEnv.PYTHONWARNINGS": "ignore::FutureWarning",
}

FEW_ROWS_MASTER: Final = "local[2]"
FEW_ROWS: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""A few rows are computed sooner than code for them is compiled."""


class NoMaster(NoConnector):
    """Spark's master does not respond."""


class NoSpark(NoConnector):
    """Java did not start, or exited at once."""


def open_session(
    name: str,
    *,
    needs: Iterable[str],
    master: str | None = None,
    jars: Path | None = None,
    settings: Mapping[str, object] | None = None,
) -> SparkSession:
    """Start Spark, or return the running session.

    needs     elements of `connectors.NEEDS`; others only with `jars`
    master    None: the setting of spark-submit, or all cores of this machine
    jars      a folder of jars that are used instead of fetched ones
    settings  settings of Spark; jars and packages in them are added to the connectors
    raises    NoConnector, NoMaster, NoSpark; PySparkException
    cost      3 to 6 seconds, and half a minute more to fetch connectors for the first time
    """
    # Workers use this interpreter, and so its packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_local = (master or os.environ.get("MASTER", "local")).startswith("local")
    connectors = list(needs)
    ours = {**ALWAYS, **(LOCAL if is_local else {}), **_connectors(connectors, jars)}
    ours |= connector_settings(connectors)
    chosen = _merged(ours, settings or {})
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    log: StartLog | None = None
    if SparkContext._gateway is None:
        log = _launched(chosen, master)
        # The process has resolved these and added them, with their dependencies, to `spark.jars`.
        chosen = {key: value for key, value in chosen.items() if key not in RESOLVED}
    for key, value in chosen.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JError, RuntimeError) as error:
        if STOPPED in str(error):
            raise NoMaster(f"Spark's master does not respond at {master}") from error
        raise
    finally:
        if log is not None:
            log.pass_on()


def _launched(settings: Mapping[str, str], master: str | None) -> StartLog:
    """Start the Java process; print the fallback versions that Ivy took.

    raises  NoConnector, NoSpark
    """
    given = dict(settings) if master is None else {**settings, "spark.master": master}
    try:
        log = launch(given)
    except LaunchFailed as error:
        output = str(error)
        reason = missing(output, pyspark.__version__)
        if reason is not None:
            raise NoConnector(reason) from error
        sys.stderr.write(output)
        raise NoSpark("Spark's Java process did not start; its output is above") from error
    if "spark.log.level" in settings:
        sys.stderr.write(log.text())
        log.pass_on()
    for line in replaced(log.text()):
        print(line, file=sys.stderr)
    return log


def close_session(spark: SparkSession) -> None:
    """Stop Spark and wait until its Java process has exited; it may have exited already."""
    with suppress(Py4JError, OSError):
        spark.stop()
    end()


def _merged(ours: Mapping[str, str], theirs: Mapping[str, object]) -> dict[str, str]:
    """Our settings overridden by those of the file; lists are concatenated."""
    merged = dict(ours)
    for key, value in theirs.items():
        text = text_of_option(value)
        if key in LIST_SETTINGS and key in ours:
            names = [part.strip() for part in (*ours[key].split(","), *text.split(","))]
            text = ",".join(dict.fromkeys(name for name in names if name))
        merged[key] = text
    return merged


def _connectors(needs: Iterable[str], jars: Path | None) -> dict[str, str]:
    if jars is not None:
        files = sorted(str(path) for path in jars.glob("*.jar"))
        if not files:
            raise NoConnector(f"{jars} contains no jars")
        return {JARS: ",".join(files)}
    artifacts = packages(needs, pyspark.__version__)
    if not artifacts:
        return {}
    folder = cache()
    settings = folder / f"settings-{pyspark.__version__}.xml"
    temporary = settings.with_suffix(f".{os.getpid()}")
    temporary.write_text(ivy_settings(pyspark.__version__))
    temporary.replace(settings)
    return {
        PACKAGES: ",".join(artifacts),
        "spark.jars.ivySettings": str(settings),
        "spark.jars.ivy": str(folder),
    }
