"""Hadoop's local file system for a Spark session of tests, without a process for each file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import SparkSession

from odradek.pipeline.spark.gateway import java, java_context
from tests.support import programs
from tests.support.tool_cache import PROJECT

SOURCE: Final = PROJECT / "tests" / "pipeline" / "java" / "LocalFiles.java"


def archive() -> Path:
    """The class, which a session needs among its jars."""
    jars = Path(pyspark.__file__).with_name("jars")
    return programs.java_classes("spark-local-files", [SOURCE], jars)


def use_in(spark: SparkSession) -> None:
    """Use it for addresses of files; Spark's own start, before it has the jar, has Hadoop's."""
    java_context(spark).hadoopConfiguration().set("fs.file.impl", SOURCE.stem)
    java(spark).org.apache.hadoop.fs.FileSystem.closeAll()
