"""Steps of binary formats in tests: given rows are JSON there, and no registry is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StructType

from odradek.pipeline.jobs.given import GivenRowsError
from odradek.pipeline.spec.bounded_files import read_bytes
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.parse_step import Parse


def in_json(spark: SparkSession, pipeline: PipelineSpec, folder: Path) -> PipelineSpec:
    """A pipeline with parse steps that read JSON where they read a registry's records, or Protobuf.

    folder  of the pipeline file
    raises  GivenRowsError for a step whose schema is in a registry only
    """
    steps = {
        name: _in_json(spark, name, step, folder) if isinstance(step, Parse) else step
        for name, step in pipeline.steps.items()
    }
    return pipeline.model_copy(update={"steps": steps})


def _in_json(spark: SparkSession, name: str, step: Parse, folder: Path) -> Parse:
    if step.registry is None and step.format != "protobuf":
        return step
    update: dict[str, Any] = {"registry": None}
    if not step.is_text:
        update |= {"format": "json", "row_schema": _columns(spark, _schema(name, step, folder))}
    return step.model_copy(update=update)


def _schema(name: str, step: Parse, folder: Path) -> str:
    """The Avro schema of a step."""
    if step.descriptor is not None and step.message is not None:
        # Imported here: most pipelines need none of its libraries.
        from odradek.pipeline.registry.protobuf import BadDescriptor, avro_schema, message_type

        try:
            content = read_bytes(folder / step.descriptor)
            return avro_schema(message_type(content, step.message).DESCRIPTOR)
        except BadDescriptor as error:
            raise GivenRowsError(f"steps.{name}: {step.descriptor}: {error}") from error
    if step.row_schema is None:
        raise GivenRowsError(f"steps.{name}: a test asks no registry: schema must be given")
    return step.row_schema


def _columns(spark: SparkSession, schema: str) -> str:
    """The columns as in CREATE TABLE."""
    decoded = spark.range(0).select(from_avro(F.lit(None).cast("binary"), schema).alias("row"))
    columns = decoded.schema["row"].dataType
    assert isinstance(columns, StructType), "the Avro schema is a record's"
    return columns.toDDL()
