"""Classes of Java programs in files that later JVMs map instead of loading (class data sharing).

With them a broker of Apache Kafka has started after 1.0 instead of 1.8 s of processor time, one of
its tools needs 0.4 instead of 0.65 s, a Spark session 5.4 instead of 11 s.

A JVM takes an archive when it is of the same release of Java and its class path begins as that of
the JVM which wrote it; otherwise it loads its classes as always.
Source: JEP 350.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support import tool_cache

ARCHIVES = tool_cache.TOOLS / "class-archives"
FILE = "classes.jsa"
SMALL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MetaspaceSize=256m")
"""A JVM that starts quickly; those that share an archive have the same collector.

The size is where classes cause a full collection for the first time, which is at 21 MiB otherwise.
"""
FEW_ROWS = (
    "-Dspark.sql.codegen.wholeStage=false",
    "-Dspark.sql.codegen.factoryMode=NO_CODEGEN",
    "-Dspark.sql.adaptive.enabled=false",
    "-Dspark.default.parallelism=1",
    # The plan of each batch, a text for Spark's page: it is empty without compiled code.
    "-Dspark.sql.ui.explainMode=codegen",
)
"""Settings of Spark: a few rows are computed sooner than code for them is compiled."""
CODE = "-XX:ReservedCodeCacheSize=192m"
"""Spark's compiled code fills the 48 MiB of such a JVM: it would be dropped and compiled again."""
SPARK = "spark"
NEWEST_SPARK = "newest-spark"
ZOOKEEPER = "zookeeper"


def options(name: str) -> list[str]:
    """The options of a JVM that uses an archive; none when it was not made."""
    archive = ARCHIVES / name / FILE
    if not archive.exists():
        return []
    # A JVM that cannot use it would say so on its standard output.
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"]


def writing(archive: Path) -> list[str]:
    """The options of a JVM that writes an archive when it ends."""
    return [f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable"]


def small_spark() -> dict[str, str]:
    """The environment of the lowest PySpark, in a small JVM, for few rows."""
    return spark_environment([*options(SPARK), *FEW_ROWS])


def spark_environment(arguments: Sequence[str]) -> dict[str, str]:
    """The environment of Spark in a small JVM with further arguments, on its own settings."""
    return {"SPARK_LOCAL_IP": "127.0.0.1", "JDK_JAVA_OPTIONS": " ".join((*SMALL, CODE, *arguments))}
