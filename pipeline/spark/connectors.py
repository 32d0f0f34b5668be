"""Spark's connectors on Maven Central: their coordinates, Ivy's settings, and its messages.

The artifacts of a Spark release reach Maven Central one by one, and some never do.  When the
artifact of the installed version is missing, Ivy takes the newest version known to work with it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pyspark

SCALA: Final = "2.13"
SPARK: Final = "org.apache.spark"
CENTRAL: Final = "https://repo1.maven.org/maven2"
KNOWN: Final = {
    f"spark-sql-kafka-0-10_{SCALA}": ("4.0.0", "4.2.0"),
    f"spark-token-provider-kafka-0-10_{SCALA}": ("4.0.0",),
    f"spark-avro_{SCALA}": ("4.0.0", "4.1.1"),
}
"""Artifact -> versions on Maven Central that also work with later versions of Spark."""
SPARK_ARTIFACTS: Final = {
    "kafka": (f"spark-sql-kafka-0-10_{SCALA}", f"spark-token-provider-kafka-0-10_{SCALA}"),
    "avro": (f"spark-avro_{SCALA}",),
}
"""Need of a pipeline -> artifacts that have the version of Spark."""
OTHER_ARTIFACTS: Final = {
    # Dependencies of the connector: Ivy does not resolve them for a fallback version.
    "kafka": ("org.apache.kafka:kafka-clients:3.9.0", "org.apache.commons:commons-pool2:2.12.0"),
    "jdbc:sqlite": ("org.xerial:sqlite-jdbc:3.46.1.3",),
    "jdbc:mariadb": ("org.mariadb.jdbc:mariadb-java-client:3.5.11",),
    "jdbc:postgresql": ("org.postgresql:postgresql:42.7.4",),
}
"""Need of a pipeline -> artifacts with their own versions."""
LAKES: Final = {
    "delta": {"4.0": "io.delta:delta-spark_2.13:4.0.0"},
    "iceberg": {"4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"},
}
"""Format -> minor version of Spark -> the artifact that is known to work with it."""
S3: Final = "s3"
"""The need of paths `s3a://`."""
S3_SDK: Final = ("s3", "s3-transfer-manager", "sts")
S3_SDK_VERSION: Final = "2.25.53"
PACKAGE: Final = "maven:"
"""Prefix of a need that is a Maven coordinate."""
EXTENSIONS: Final = "spark.sql.extensions"
SETTINGS: Final = {
    "delta": {
        EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {EXTENSIONS: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
    # A jar of 540 MB with the clients of all services; those that S3 needs are named instead.
    S3: {"spark.jars.excludes": "software.amazon.awssdk:bundle"},
}
"""Need of a pipeline -> settings of the Spark session."""
NEEDS: Final = tuple(dict.fromkeys((*SPARK_ARTIFACTS, *OTHER_ARTIFACTS)))
FALLBACK: Final = "odradek-known-"
"""Prefix of the names of the resolvers for fallback versions; the version follows."""

_FOUND: Final = re.compile(
    rf"^\s*found {re.escape(SPARK)}#(\S+);(\S+) in {FALLBACK}(\S+)", re.MULTILINE
)
_MISSING: Final = re.compile(r"^\s*:: ([\w.-]+)#([\w.-]+);([\w.-]+): not found", re.MULTILINE)
_UNREACHED: Final = re.compile(
    r"Server access error|UnknownHostException|ConnectException|SocketTimeoutException"
    r"|Connection refused|Connection timed out"
)


class NoConnector(Exception):
    """A connector cannot be fetched; the message names it and the remedy."""


def packages(needs: Iterable[str], version: str) -> list[str]:
    """The Maven coordinates of connectors.

    needs    keys of NEEDS
    version  of Spark
    raises   NoConnector for an unknown need
    """
    artifacts: list[str] = []
    for need in dict.fromkeys(needs):
        if need.startswith(PACKAGE):
            artifacts.append(need.removeprefix(PACKAGE))
            continue
        if need in LAKES:
            artifacts.append(_lake(need, version))
            continue
        if need == S3:
            artifacts += _s3()
            continue
        if need not in NEEDS:
            raise NoConnector(
                f"there is no connector for {need}: fetched are those for {', '.join(NEEDS)};"
                " put its driver and the other connectors into a folder and say --jars FOLDER"
            )
        artifacts += [f"{SPARK}:{artifact}:{version}" for artifact in SPARK_ARTIFACTS.get(need, ())]
        artifacts += OTHER_ARTIFACTS.get(need, ())
    return artifacts


def _lake(need: str, version: str) -> str:
    """raises  NoConnector"""
    versions = LAKES[need]
    minor = ".".join(map(str, _minor(version)))
    if minor not in versions:
        raise NoConnector(
            f"no artifact of {need} is known for PySpark {version}, but for {', '.join(versions)};"
            ' name one: packages = ["GROUP:ARTIFACT:VERSION"], or say --jars FOLDER'
        )
    return versions[minor]


def _s3() -> list[str]:
    """Hadoop's file system of S3 in the version of PySpark's Hadoop, and its clients.

    raises  NoConnector
    """
    jars = list((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar"))
    if not jars:
        raise NoConnector("PySpark has no Hadoop: put hadoop-aws into a folder, say --jars FOLDER")
    version = jars[0].stem.removeprefix("hadoop-client-api-")
    clients = [f"software.amazon.awssdk:{module}:{S3_SDK_VERSION}" for module in S3_SDK]
    return [f"org.apache.hadoop:hadoop-aws:{version}", *clients]


def settings(needs: Iterable[str]) -> dict[str, str]:
    """The settings of the Spark session that connectors need."""
    merged: dict[str, str] = {}
    for need in dict.fromkeys(needs):
        for name, value in SETTINGS.get(need, {}).items():
            is_list = name == EXTENSIONS and name in merged
            merged[name] = f"{merged[name]},{value}" if is_list else value
    return merged


def cache() -> Path:
    """The folder of Ivy's cache for pipelines, which is created.

    Ivy's default cache is not used: it would store a fallback version under the missing version's
    name.
    raises  NoConnector when the folder cannot be created
    """
    home = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(home) if home else Path.home() / ".cache") / "odradek" / "ivy"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise NoConnector(
            f"{folder}, where Spark's connectors are kept, cannot be made: {error.strerror};"
            " set XDG_CACHE_HOME to another folder"
        ) from error
    return folder


def fallback_version(artifact: str, version: str) -> str:
    """The newest known version of an artifact up to `version`, or else the oldest."""
    newest = _minor(version)
    fitting = [version for version in KNOWN[artifact] if _minor(version) <= newest]
    return fitting[-1] if fitting else KNOWN[artifact][0]


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def ivy_settings(version: str) -> str:
    """Ivy's settings: Maven Central, with fallback versions for missing artifacts of Spark.

    The local Maven folder is left out: a POM without its jar there would fail the resolution.
    """
    resolvers: list[str] = []
    modules: list[str] = []
    for artifact in KNOWN:
        other = fallback_version(artifact, version)
        place = f"{CENTRAL}/{SPARK.replace('.', '/')}/{artifact}/{other}/{artifact}-{other}.[ext]"
        resolvers += [
            f'<chain name="{artifact}"><resolver ref="central"/>',
            f'<url name="{FALLBACK}{other}:{artifact}"><artifact pattern="{place}"/></url></chain>',
        ]
        modules.append(f'<module organisation="{SPARK}" name="{artifact}" resolver="{artifact}"/>')
    lines = [
        '<ivysettings><settings defaultResolver="central"/>',
        '<resolvers><ibiblio name="central" m2compatible="true"/>',
        *resolvers,
        "</resolvers><modules>",
        *modules,
        "</modules></ivysettings>",
    ]
    return "\n".join(lines) + "\n"


def replaced(output: str) -> Iterator[str]:
    """One line for each artifact for which Ivy took a fallback version.

    output  the output of Spark's start
    """
    for artifact, version, rest in _FOUND.findall(output):
        other = rest.partition(":")[0]
        yield f"{artifact} {version} is not on Maven Central: {other} is used"


def missing(output: str, version: str) -> str | None:
    """The artifacts that Ivy did not find, in one line; None when Spark failed for another reason.

    version  of Spark
    """
    absent = list(dict.fromkeys(_MISSING.findall(output)))
    if not absent:
        return None
    names = ", ".join(":".join(artifact) for artifact in absent)
    if _UNREACHED.search(output):
        return (
            f"Maven Central cannot be reached, and {names} was not fetched before;"
            " put the jars into a folder and say --jars FOLDER"
        )
    of_spark = [artifact for artifact in absent if artifact[1] in KNOWN]
    if of_spark:
        newest = KNOWN[SPARK_ARTIFACTS["kafka"][0]][-1]
        return (
            f"no connector for PySpark {version} on Maven Central: {names} is not there;"
            f" install 'pyspark<={newest}', or put the jars into a folder and say --jars FOLDER"
        )
    return f"{names} is not on Maven Central; [pipeline.spark] names it in spark.jars.packages"
