"""Jobs with tables of Delta Lake and Iceberg."""

from __future__ import annotations

import json
from pathlib import Path

from tests.pipeline.crashes import LAST_TIMEOUT_S
from tests.support import fetched_connectors
from tests.support.pipeline_job import PipelineJob

CATALOG = """
"spark.sql.catalog.lake" = "org.apache.iceberg.spark.SparkCatalog"
"spark.sql.catalog.lake.type" = "hadoop"
"spark.sql.catalog.lake.warehouse" = "{warehouse}"
"""
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "of-the-lake"}


def job(file: Path, log: str) -> None:
    """Run a file to its end."""
    environment = {**fetched_connectors.environment(), **CREDENTIALS}
    run = PipelineJob(
        file,
        log=file.with_name(log),
        arguments=["--mode", "available_now"],
        environment=environment,
    )
    try:
        run.finish(timeout_s=LAST_TIMEOUT_S)
    finally:
        run.close()


def ids(folder: Path, name: str) -> list[int]:
    """The ids in the files of a sink that lists what a table has."""
    files = (folder / name).glob("part-*")
    return sorted(json.loads(line)["id"] for file in files for line in file.read_text().split())
