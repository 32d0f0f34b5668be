"""The Spark session of a pipeline: connectors by the installed version, loopback when local."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

SCALA: Final = "2.13"
CONNECTORS: Final = {
    "kafka": f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{pyspark.__version__}",
    "avro": f"org.apache.spark:spark-avro_{SCALA}:{pyspark.__version__}",
    "jdbc:sqlite": "org.xerial:sqlite-jdbc:3.46.1.3",
    "jdbc:postgresql": "org.postgresql:postgresql:42.7.4",
}
"""What a pipeline needs -> Maven coordinates."""

STOPPED: Final = "Cannot call methods on a stopped SparkContext"
"""What is left of a session whose master did not take it."""
JAVA_END_TIMEOUT_S: Final = 15.0

IVY_SETTINGS: Final = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
"""Maven Central alone: a POM without its jar in the local Maven folder spoils the resolution."""

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
}


class NoConnector(Exception):
    """Spark's connectors could not be fetched."""


class NoMaster(NoConnector):
    """Spark's master does not answer."""


def open_session(
    name: str,
    *,
    needs: Iterable[str],
    master: str | None = None,
    jars: Path | None = None,
    settings: Mapping[str, object] | None = None,
) -> SparkSession:
    """Start Spark, or take the session that runs.

    needs   keys of CONNECTORS; others only with `jars`
    master  None: what spark-submit says, or all cores of this machine
    jars    a folder of jars, used instead of fetching them
    raises  NoConnector, NoMaster; PySparkException

    cost    3 to 6 seconds, and half a minute more when connectors are fetched for the first time
    """
    # Workers must find the packages that this process has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    is_local = (master or os.environ.get("MASTER", "local")).startswith("local")
    chosen = {
        **ALWAYS,
        **(LOCAL if is_local else {}),
        **_connectors(needs, jars),
        **(settings or {}),
    }
    for key, value in chosen.items():
        builder = builder.config(key, str(value).lower() if isinstance(value, bool) else str(value))
    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JError, RuntimeError) as error:
        if STOPPED in str(error):
            raise NoMaster(f"no master of Spark answers at {master}") from error
        if "spark.jars.packages" in chosen and SparkSession.getActiveSession() is None:
            raise NoConnector(
                f"Spark did not start; it fetches {chosen['spark.jars.packages']} from Maven"
                " Central. Without a way there, put the jars into a folder and say --jars FOLDER"
            ) from error
        raise


def close_session(spark: SparkSession) -> None:
    """Stop Spark, and wait until its Java process is gone; it does not matter if it is already."""
    gateway: Any = spark.sparkContext._gateway
    with suppress(Py4JError, OSError):
        spark.stop()
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    process.stdin.close()
    try:
        process.wait(JAVA_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None


def _connectors(needs: Iterable[str], jars: Path | None) -> dict[str, str]:
    if jars is not None:
        files = sorted(str(path) for path in jars.glob("*.jar"))
        if not files:
            raise NoConnector(f"{jars} holds no jars")
        return {"spark.jars": ",".join(files)}
    wanted = list(dict.fromkeys(needs))
    for need in wanted:
        if need not in CONNECTORS:
            raise NoConnector(
                f"there is no connector for {need}: fetched are those for {', '.join(CONNECTORS)};"
                " put its driver and the other connectors into a folder and say --jars FOLDER"
            )
    packages = [CONNECTORS[need] for need in wanted]
    if not packages:
        return {}
    folder = Path(tempfile.gettempdir()) / f"odradek-ivy-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    ivy_settings = folder / "ivysettings.xml"
    ivy_settings.write_text(IVY_SETTINGS)
    return {"spark.jars.packages": ",".join(packages), "spark.jars.ivySettings": str(ivy_settings)}
