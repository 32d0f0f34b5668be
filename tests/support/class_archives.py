"""Classes of Java programs in files that later JVMs map instead of loading (class data sharing).

With them a broker of Apache Kafka has started after 1.0 instead of 1.8 s of processor time, one of
its tools needs 0.4 instead of 0.65 s, a Spark session with a first query 5.4 instead of 9.5 s.

A JVM takes an archive when it is of the same release of Java and its class path begins as that of
the JVM which wrote it; otherwise it loads its classes as always.
Source: JEP 350.
"""

from __future__ import annotations

from pathlib import Path

from tests.support import tool_cache

ARCHIVES = tool_cache.TOOLS / "class-archives"
FILE = "classes.jsa"
SMALL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A JVM that starts quickly; those that share an archive have the same collector."""
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


def small_spark(sharing: list[str] | None = None) -> dict[str, str]:
    """The environment of Spark in a small JVM.

    sharing  options in place of those that take the archive of the lowest PySpark
    """
    chosen = options(SPARK) if sharing is None else sharing
    return {"SPARK_LOCAL_IP": "127.0.0.1", "JDK_JAVA_OPTIONS": " ".join((*SMALL, *chosen))}
