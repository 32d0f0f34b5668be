"""Feeds rows to the steps of a pipeline file: all at once, or as a stream of given batches."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from odradek.pipeline.jobs import run
from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.parse_step import Parse
from odradek.pipeline.transforms.parse import parse as parse_rows

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
STATE = "state"
VIEW = "view_of_row"

Rows = Sequence[Mapping[str, object]]


def at(seconds: float) -> str:
    """A time of the test day in the form of JSON."""
    return (BEGIN + timedelta(seconds=seconds)).isoformat()


def seconds(time: datetime) -> float:
    """The inverse of `at` for a time from Spark, which is local time without a zone."""
    return (time.astimezone(UTC) - BEGIN).total_seconds()


def feed(folder: Path, batches: Sequence[Rows], first: int = 0) -> None:
    """Write a file per batch; a source with one file per trigger reads them in this order."""
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(batches, first):
        path = folder / f"{number:04d}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (1_000_000 + number, 1_000_000 + number))


def document(steps: str, mode: str, schemas: Mapping[str, str]) -> str:
    """A pipeline file with a folder of JSON as the source of each schema."""
    sources = "".join(
        f'[sources.{name}]\nkind = "files"\npath = "{name}"\nformat = "json"\n'
        f'schema = "{schema}"\nmax_files_per_trigger = 1\n'
        for name, schema in schemas.items()
    )
    return (
        f'[pipeline]\nname = "steps"\nmode = "{mode}"\ncheckpoint = "{STATE}"\n{sources}{steps}\n'
        f'[sinks.unused]\nkind = "console"\nfrom = "{next(iter(schemas))}"\n'
    )


def built(
    spark: SparkSession, folder: Path, steps: str, mode: str, schemas: Mapping[str, str]
) -> None:
    """Create the views of the steps over the files in the folder."""
    path = folder / "my.toml"
    run.build(spark, parse(document(steps, mode, schemas), path), folder)


def in_batch(
    spark: SparkSession, folder: Path, steps: str, view: str, schemas: Mapping[str, str]
) -> list[Any]:
    """The rows of a view, computed at once."""
    built(spark, folder, steps, "batch", schemas)
    return spark.table(view).collect()


def in_stream(
    spark: SparkSession, folder: Path, steps: str, views: Sequence[str], schemas: Mapping[str, str]
) -> dict[str, list[Any]]:
    """The rows of views that a stream writes until it has read all batches.

    It is one query: of several, each would cost its own time in every batch.
    """
    built(spark, folder, steps, "available_now", schemas)
    named = [spark.table(view).withColumn(VIEW, F.lit(view)) for view in views]
    together = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), named)
    start(together, folder, "views").awaitTermination()
    rows = spark.table("views_results")
    return {
        view: rows.where(F.col(VIEW) == view).select(*spark.table(view).columns).collect()
        for view in views
    }


def start(rows: DataFrame, folder: Path, name: str) -> Any:
    """Start a query that writes a stream to the in-memory table `name`_results."""
    writer = rows.writeStream.format("memory").queryName(f"{name}_results")
    writer = writer.option("checkpointLocation", str(folder / STATE / name))
    return writer.trigger(availableNow=True).start()


def outcome(spark: SparkSession, values: Sequence[bytes | None], **settings: Any) -> list[Any]:
    """For each value in order: the tuple of its columns, or the reason of its dead letter."""
    step = Parse.model_validate({"kind": "parse", "from": "rows", "keep": ["id"], **settings})
    rows = spark.createDataFrame(list(enumerate(values)), "id INT, value BINARY")
    keyed = rows.selectExpr("id", "value", "cast(cast(id as string) as binary) as key")
    good, bad = parse_rows(keyed, step)
    columns = [F.col(f"`{name}`") for name in good.columns if name != "id"]
    # One query for both.
    parsed = good.select("id", F.struct(*columns).alias("parsed"))
    outcomes: dict[int, Any] = {}
    for row in parsed.unionByName(bad, allowMissingColumns=True).collect():
        number = row.id if row.parsed is not None else int(row.key)
        assert number not in outcomes, "a row is good or bad"
        if row.parsed is not None:
            outcomes[number] = tuple(row.parsed)
            continue
        assert row.value == values[number], "a dead letter is what came"
        headers = {header.key: header.value for header in row.headers}
        outcomes[number] = bytes(headers["odradek.reason"]).decode()
    assert len(outcomes) == len(values), "no row is lost"
    return [outcomes[number] for number in range(len(values))]


def moment(value: datetime) -> datetime:
    """Convert a time from Spark, which is local time without a zone."""
    return value.astimezone(UTC)
