"""Sinks of a pipeline file."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from odradek.pipeline.spec.ends import (
    Count,
    FileFormat,
    Packages,
    Url,
    check_message,
    check_place,
    database_of,
    without_options,
)
from odradek.pipeline.spec.field_types import (
    ColumnNames,
    Duration,
    Length,
    Name,
    Names,
    Options,
    Part,
    Text,
    Topic,
    duration_ms,
)

DATABASES: Final = ("sqlite", "postgresql", "mariadb")
"""Databases of sinks; a source reads any database with a JDBC driver."""


OutputMode = Annotated[
    Literal["append", "update", "complete"],
    Field(
        description="append: rows that are final; update: those that a batch has changed; "
        "complete: all rows, after aggregates.  Spark's outputMode."
    ),
]


class Restart(Part):
    """Start a query again when it has failed, from its last completed batch; others go on.

    For all queries in `[pipeline.restart]`, for one sink in `[sinks.NAME.restart]`.  Not in mode
    batch.
    """

    backoff_min: Duration = "1 second"
    """The delay after the first failure; it doubles with each further one."""
    backoff_max: Duration = "1 minute"
    """The longest delay."""
    attempts_max: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Starts in a row without a completed batch, after which a failure ends the pipeline; None: no
    bound; 0: the first failure does."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if duration_ms(self.backoff_min) > duration_ms(self.backoff_max):
            raise ValueError(f"backoff_min is above backoff_max, {self.backoff_max}")
        return self


class Destination(Part):
    """A sink."""

    source: Name = Field(alias="from")
    """The source or step whose rows are written."""
    restart: Restart | None = None
    """Start the query of this sink again when it has failed; None: as `[pipeline.restart]` says."""


class KafkaSink(Destination):
    """A Kafka topic.

    delivery_guarantee  at_least_once: Spark's connector writes, and a batch that is repeated after
                        a crash writes its records again.  exactly_once: each batch is written in
                        one transaction, once; `options`, and those of the cluster, are then
                        properties of librdkafka's producer
    value  columns of a JSON object, "*" for all; bytes (such as a kept `key`) are in base64.
           "value" and None: the column `value`, unchanged
    key    the column of the record key; None: the column `key` if it exists
    schema  of `avro` the schema in JSON, of `json_schema` the JSON Schema; None: for Avro that of
            the columns.  It is registered for `subject` when the sink starts, and rows must have
            its fields
    """

    kind: Literal["kafka"]
    cluster: Text
    """A table of `[clusters]`."""
    topic: Topic | None = None
    """None: the topic is in the column `topic`."""
    key: Text | None = None
    value: ColumnNames | Literal["*", "value"] | None = "*"
    format: Literal["json", "avro", "protobuf", "json_schema"] = "json"
    """How `value` is encoded; `json_schema` is JSON with the id of a schema before it."""
    row_schema: Text | None = Field(None, alias="schema")
    registry: Text | None = None
    """A table of `[registries]`: the id of the schema precedes each value."""
    subject: Text | None = None
    """Subject of the schema in the registry; None: `TOPIC-value`."""
    register_schema: bool = True
    """Register the schema; false: it must be there, and without `schema` the latest is taken."""
    descriptor: Text | None = Field(None, examples=["shop.desc"])
    """For Protobuf, the file that `protoc --include_imports --descriptor_set_out` writes, relative
    to the pipeline file."""
    message: Text | None = Field(None, examples=["shop.Order"])
    """The message in `descriptor`, with its package."""
    output_mode: OutputMode = "append"
    delivery_guarantee: Literal["at_least_once", "exactly_once"] = "at_least_once"
    options: Options = {}
    """Further options of Spark's Kafka sink, or properties of the exactly-once producer."""

    @property
    def is_exactly_once(self) -> bool:
        """Whether batches are written in transactions."""
        return self.delivery_guarantee == "exactly_once"

    @property
    def subject_name(self) -> str:
        """The subject of the schema, and the name of an Avro record that has no schema."""
        return self.subject or f"{self.topic}-value"

    @model_validator(mode="after")
    def _one_schema(self) -> Self:
        check_message(self.format, self.descriptor, self.message)
        if self.format == "json" and (self.registry or self.row_schema):
            raise ValueError('registry and schema: for format = "avro", "protobuf", "json_schema"')
        if self.format != "json" and self.value in (None, "value"):
            raise ValueError(f"value: {self.format} needs columns")
        if self.format == "protobuf" and self.row_schema is not None:
            raise ValueError("schema: the fields of Protobuf are those of message")
        if self.format == "json_schema" and self.registry is None:
            raise ValueError('format = "json_schema" needs a registry; without one it is "json"')
        if self.format == "json_schema" and self.row_schema is None and self.register_schema:
            raise ValueError("schema must be given, or register_schema = false")
        if self.registry is not None and self.topic is None and self.subject is None:
            raise ValueError("subject must be given: rows have topics of their own")
        return self

    @model_validator(mode="after")
    def _one_topic(self) -> Self:
        if self.is_exactly_once and self.topic is None:
            raise ValueError('delivery_guarantee = "exactly_once" needs one topic: topic = ...')
        return self


class FileSink(Destination):
    """A folder of files, exactly once: Spark's commit log in it lists the committed files."""

    kind: Literal["files"]
    path: Text
    """The folder, relative to the pipeline file; or a URI that Spark writes."""
    format: FileFormat
    partition_by: ColumnNames | None = None
    """Columns whose values name folders, as `day=2026-01-01/`.  Spark's `partitionBy`."""
    options: Options = {}
    """Further options of Spark's writer of the format."""


class TableSink(Destination):
    """A table of a database with upserts by key, so a repeated batch changes nothing.

    keys       the columns of the primary key
    latest_by  the column by which the newer of two rows with one key is kept, in whatever order
               they arrive; None: the row of the later batch is kept.  If it is in `omit`, rows
               of a batch are compared, but not those of the table
    delete_by  the BOOLEAN column that is true for a row which deletes its key, such as `deleted`
               of a parse step; it is not stored, and requires `latest_by`
    keep_by    the ARRAY<STRING> column with the names of columns whose values are not known, such
               as `unavailable` of a parse step: they keep the value of an earlier row, of the batch
               or the table.  It is not stored, and requires `latest_by`
    """

    kind: Literal["jdbc"]
    url: Url
    """The JDBC address of a SQLite file, relative to the pipeline file, of PostgreSQL or MariaDB.
    MariaDB stores texts in keys as VARCHAR(255), and times in UTC."""
    table: Text
    """The table; `schema.table` in PostgreSQL."""
    keys: ColumnNames
    latest_by: Text | None = None
    delete_by: Text | None = None
    keep_by: Text | None = None
    omit: Names = []
    """Columns that are not stored, such as the `offset` that `latest_by` names."""
    output_mode: OutputMode = "append"
    create: bool = True
    """Create the table unless it exists."""

    @field_validator("url")
    @classmethod
    def _known_database(cls, url: str) -> str:
        if database_of(url) not in DATABASES:
            prefixes = ", ".join(f"jdbc:{name}:..." for name in DATABASES)
            raise ValueError(f"{without_options(url)!r} is not allowed; allowed: {prefixes}")
        return url

    @model_validator(mode="after")
    def _deletes_are_ordered(self) -> Self:
        if self.delete_by is not None and self.latest_by is None:
            raise ValueError(
                "delete_by needs latest_by: of a row and its deletion in one batch the later counts"
            )
        if self.keep_by is not None and self.latest_by is None:
            raise ValueError("keep_by needs latest_by: the value of the row before is kept")
        for name in self.keys:
            if name in (*self.omit, self.delete_by, self.keep_by):
                raise ValueError(f"the key {name!r} must be stored")
        return self


class ConsoleSink(Destination):
    """Standard output."""

    kind: Literal["console"]
    output_mode: OutputMode = "append"
    rows: Count = 20
    """Rows of a batch that are printed.  Spark's `numRows`."""


class SparkSink(Destination):
    """Any connector of Spark, by its format and options; Delta Lake and Iceberg among them.

    The guarantee is that of the connector's streaming writer: Delta Lake and Iceberg write each
    batch exactly once.  With `foreach_batch` it is at least once.
    """

    kind: Literal["spark"]
    format: Text = Field(examples=["delta", "iceberg", "mongodb"])
    """The name of the connector.  Spark's `format`."""
    path: Text | None = None
    """The path of the table, relative to the pipeline file; or a URI.  Spark's option `path`."""
    table: Text | None = Field(None, examples=["lake.shop.orders"])
    """Instead of `path`, the table in a catalog of `[pipeline.spark]`, which is created.  Spark's
    `toTable`."""
    partition_by: ColumnNames | None = None
    """Columns by whose values a new table is divided.  Spark's `partitionBy`."""
    output_mode: OutputMode = "append"
    foreach_batch: bool = False
    """Write each batch of a stream as in batch mode, for a connector without a streaming writer.
    Spark's `foreachBatch`."""
    save_mode: Literal["append", "overwrite"] = "append"
    """In batch mode and with `foreach_batch`: `overwrite` replaces the table by the rows.  Spark's
    `mode`."""
    packages: Packages = []
    options: Options = {}
    """Options of the connector."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        check_place(self.path, self.table)
        return self


def _http_address(url: str) -> str:
    if re.match(r"https?://[^/?#@\s]+([/?]\S*)?$", url) is None:
        raise ValueError("not an address like https://HOST/PATH; an account belongs into headers")
    return url


class HttpSink(Destination):
    """An HTTP endpoint, one request per row, at least once: a webhook.

    A batch that is repeated after a crash sends its requests again, with the same idempotency keys.
    A stream that is stopped waits for the attempts of a request.

    headers  of each request, such as `Authorization = "Bearer ${TOKEN}"`
    timeout  of an attempt: to connect, and between parts of the response
    retries  attempts after the first one, when there is no response or status 408, 425, 429, 500,
             502, 503 or 504; any other status than 2xx ends the query, and so does the last attempt
    backoff  before the second retry; it doubles with each one.  The first is sent at once, or after
             `Retry-After`, which is bounded by `backoff_max`, too
    """

    kind: Literal["http"]
    url: Annotated[str, AfterValidator(_http_address)] = Field(examples=["https://hooks.shop/new"])
    """The address, with http or https."""
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    """Method of each request."""
    value: ColumnNames | Literal["*", "value"] = "*"
    """Columns of the JSON object that is sent, "*" for all; or "value": the column `value` as it
    is."""
    headers: dict[str, str] = {}
    idempotency_header: Text = "Idempotency-Key"
    """The header with the key of the request, by which an endpoint knows a row that it has."""
    connections: Annotated[int, Field(ge=1, le=64)] = 1
    """Requests at the same time; with more than one their order is not that of the rows."""
    timeout: Length = "30 seconds"
    retries: Annotated[int, Field(ge=0, le=100)] = 8
    backoff: Duration = "1 second"
    backoff_max: Duration = "1 minute"
    """Bound on the time between two attempts."""
    drop_statuses: list[Annotated[int, Field(ge=400, le=599)]] = []
    """Statuses that mean that the endpoint does not want the row, which is dropped."""
    output_mode: OutputMode = "append"


Sink = Annotated[
    KafkaSink | FileSink | TableSink | SparkSink | HttpSink | ConsoleSink,
    Field(discriminator="kind"),
]
