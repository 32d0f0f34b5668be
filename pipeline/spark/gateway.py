"""Objects of Spark's Java process, for which PySpark has no public names.

Needed are Hadoop's file systems (checkpoints and folders at any address), Kafka's administration
client (clusters of a file have Java's properties), Java's parsers (regular expressions, Avro
schemas), plans and their checks, the file sink of streams, and the bus of listeners.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession


def java(spark: SparkSession) -> Any:
    """Java's packages by their names."""
    return spark._jvm


def java_session(spark: SparkSession) -> Any:
    """The session of Java."""
    return spark._jsparkSession


def java_context(spark: SparkSession) -> Any:
    """The context of Java, a JavaSparkContext."""
    return spark.sparkContext._jsc


def java_rows(rows: DataFrame) -> Any:
    """The Dataset of Java."""
    return rows._jdf


def file_system(spark: SparkSession, address: str) -> tuple[Any, Any]:
    """Hadoop's file system of a path or URI, and the path there.

    raises  py4j.protocol.Py4JJavaError when it cannot be reached
    """
    path = java(spark).org.apache.hadoop.fs.Path(address)
    return path.getFileSystem(java_context(spark).hadoopConfiguration()), path
