"""Jars from Maven: Apache Kafka brokers, releases of clients and of Streams, Spark connectors."""

from __future__ import annotations

from pathlib import Path

from tests.support import tool_cache

POMS = Path(__file__).parent / "maven"


def broker_libraries(version: str) -> Path:
    """The folder of jars of an Apache Kafka broker and its tools (some 105 jars, 56 MB)."""
    return _fetch("pom-broker.xml", version, tool_cache.TOOLS / "apache" / f"kafka-{version}")


def client_libraries(version: str) -> Path:
    """The folder of jars of one kafka-clients release with its codecs."""
    return _fetch("pom-client.xml", version, tool_cache.TOOLS / "java-clients" / version)


def mirror_client_libraries(version: str) -> Path:
    """The folder of jars of MirrorMaker 2's client, which reads what mirrors publish."""
    target = tool_cache.TOOLS / "mirror-client" / version
    return _fetch("pom-mirror-client.xml", version, target)


def streams_libraries(version: str) -> Path:
    """The folder of jars of one release of Kafka Streams."""
    return _fetch("pom-streams.xml", version, tool_cache.TOOLS / "kafka-streams" / version)


def spark_connectors(version: str) -> Path:
    """The folder of jars that a pipeline's Spark session wants besides PySpark's own."""
    return _fetch("pom-spark.xml", version, tool_cache.TOOLS / "spark" / version, "spark.version")


def _fetch(pom: str, version: str, target: Path, name: str = "kafka.version") -> Path:
    def make(folder: Path) -> None:
        tool_cache.run_tool(
            [
                "mvn",
                "-q",
                "-B",
                "-f",
                str(POMS / pom),
                f"-D{name}={version}",
                "dependency:copy-dependencies",
                f"-DoutputDirectory={folder / 'libs'}",
            ],
            folder=POMS,
        )

    mark = tool_cache.fingerprint([version, POMS / pom])
    return tool_cache.build_once(target, mark, make) / "libs"
