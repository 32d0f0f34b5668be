"""The Spark session of a pipeline: connectors by the installed version, loopback when local."""

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

from odradek.pipeline import java
from odradek.pipeline.connectors import (
    NoConnector,
    cache,
    ivy_settings,
    missing,
    packages,
    replaced,
)

STOPPED: Final = "Cannot call methods on a stopped SparkContext"
"""What is left of a session whose master did not take it."""
JARS: Final = "spark.jars"
PACKAGES: Final = "spark.jars.packages"
LISTS: Final = (JARS, PACKAGES)
"""Settings that are lists: those of the file are added to ours."""

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
    # Of PySpark itself, which puts frames together for a step with memory.
    "spark.executorEnv.PYTHONWARNINGS": "ignore::FutureWarning",
}


class NoMaster(NoConnector):
    """Spark's master does not answer."""


class NoSpark(NoConnector):
    """Java did not start, or ended at once."""


def open_session(
    name: str,
    *,
    needs: Iterable[str],
    master: str | None = None,
    jars: Path | None = None,
    settings: Mapping[str, object] | None = None,
) -> SparkSession:
    """Start Spark, or take the session that runs.

    needs     of `connectors.NEEDS`; others only with `jars`
    master    None: what spark-submit says, or all cores of this machine
    jars      a folder of jars, used instead of fetching them
    settings  more of Spark's; jars and packages among them are added to the connectors
    raises    NoConnector, NoMaster, NoSpark; PySparkException

    cost      3 to 6 seconds, and half a minute more when connectors are fetched for the first time
    """
    # Workers must find the packages that this process has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_local = (master or os.environ.get("MASTER", "local")).startswith("local")
    ours = {**ALWAYS, **(LOCAL if is_local else {}), **_connectors(needs, jars)}
    chosen = _merged(ours, settings or {})
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    log: java.StartLog | None = None
    if SparkContext._gateway is None:
        log = _launched(chosen, master)
        # The process has resolved these, and has them with those that they need in `spark.jars`.
        chosen = {key: value for key, value in chosen.items() if key not in LISTS}
    for key, value in chosen.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JError, RuntimeError) as error:
        if STOPPED in str(error):
            raise NoMaster(f"no master of Spark answers at {master}") from error
        raise
    finally:
        if log is not None:
            log.pass_on()


def _launched(settings: Mapping[str, str], master: str | None) -> java.StartLog:
    """The Java process is started; what it fetched in place of something else is said.

    raises  NoConnector, NoSpark
    """
    given = dict(settings) if master is None else {**settings, "spark.master": master}
    try:
        log = java.launch(given)
    except java.LaunchFailed as error:
        said = str(error)
        wanted = missing(said, pyspark.__version__)
        if wanted is not None:
            raise NoConnector(wanted) from error
        sys.stderr.write(said)
        raise NoSpark("Spark's Java process did not start; what it wrote stands above") from error
    if "spark.log.level" in settings:
        sys.stderr.write(log.text())
        log.pass_on()
    for line in replaced(log.text()):
        print(line, file=sys.stderr)
    return log


def close_session(spark: SparkSession) -> None:
    """Stop Spark, and wait until its Java process is gone; it does not matter if it is already."""
    with suppress(Py4JError, OSError):
        spark.stop()
    java.end()


def _merged(ours: Mapping[str, str], theirs: Mapping[str, object]) -> dict[str, str]:
    """The settings of a session; of lists, ours and theirs."""
    merged = dict(ours)
    for key, value in theirs.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if key in LISTS and key in ours:
            names = [one.strip() for one in (*ours[key].split(","), *text.split(","))]
            text = ",".join(dict.fromkeys(one for one in names if one))
        merged[key] = text
    return merged


def _connectors(needs: Iterable[str], jars: Path | None) -> dict[str, str]:
    if jars is not None:
        files = sorted(str(path) for path in jars.glob("*.jar"))
        if not files:
            raise NoConnector(f"{jars} holds no jars")
        return {JARS: ",".join(files)}
    wanted = packages(needs, pyspark.__version__)
    if not wanted:
        return {}
    folder = cache()
    settings = folder / f"settings-{pyspark.__version__}.xml"
    temporary = settings.with_suffix(f".{os.getpid()}")
    temporary.write_text(ivy_settings(pyspark.__version__))
    temporary.replace(settings)
    return {
        PACKAGES: ",".join(wanted),
        "spark.jars.ivySettings": str(settings),
        "spark.jars.ivy": str(folder),
    }
