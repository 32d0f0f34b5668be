"""Sources and sinks of a pipeline file, and the clusters that they use."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from odradek.pipeline.spec.epoch import Epoch, check_epoch
from odradek.pipeline.spec.field_types import (
    Columns,
    Duration,
    Length,
    Name,
    Names,
    Options,
    Part,
    Text,
    Topic,
)
from odradek.pipeline.spec.restart import Restart
from odradek.pipeline.spec.row_schema import columns_of, flat_columns_of

DATABASES: Final = ("sqlite", "postgresql", "mariadb")
"""Databases of sinks; a source reads any database with a JDBC driver."""
HOST_LENGTH_MAX: Final = 63
"""Bound on a label of a host name."""

Partition = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,8})$")]
Offset = Annotated[int, Field(ge=-2, le=(1 << 63) - 1)]
Count = Annotated[int, Field(ge=1, le=(1 << 31) - 1)]
Offsets = Literal["earliest", "latest"] | dict[Topic, dict[Partition, Offset]]
"""One position for all partitions, or topic -> partition -> offset (-2 earliest, -1 latest)."""
OutputMode = Annotated[
    Literal["append", "update", "complete"],
    Field(
        description="append: rows that are final; update: those that a batch has changed; "
        "complete: all rows, after aggregates.  Spark's outputMode."
    ),
]


def _addresses(text: str) -> str:
    given = [one for one in text.split(",") if one.strip()]
    for address in given or [text]:
        host, _, port = address.strip().rpartition(":")
        is_host = re.fullmatch(r"[A-Za-z0-9._%-]+|\[[A-Fa-f0-9:.%]+\]", host) is not None
        if not is_host or any(len(part) > HOST_LENGTH_MAX for part in host.split(".")):
            raise ValueError(f"{address!r} is not HOST:PORT; several are separated by commas")
        if not port.isascii() or not port.isdecimal() or not 1 <= int(port[:6]) <= 65_535:
            raise ValueError(f"{address!r} has no port from 1 to 65535")
    return text


def without_options(url: str) -> str:
    """A JDBC address without its options, which may contain a password."""
    return url.partition("?")[0]


def database_of(url: str) -> str:
    """The type of database in a JDBC address, such as `sqlite`."""
    return url.split(":")[1]


def _address_of_database(url: str) -> str:
    if re.match(r"jdbc:[a-z0-9]+:.", url) is None:
        raise ValueError(f"{without_options(url)!r} is not a JDBC address like jdbc:sqlite:FILE")
    if url == "jdbc:sqlite::memory:":
        raise ValueError("a database in memory ends with its connection; name a file")
    return url


Url = Annotated[str, AfterValidator(_address_of_database)]
Coordinate = Annotated[str, Field(pattern=r"^[\w.-]+:[\w.-]+:[\w.-]+$")]
Packages = Annotated[
    list[Coordinate],
    Field(
        description="The connector on Maven Central, as `GROUP:ARTIFACT:VERSION`, fetched at the "
        "start with its dependencies.  Spark's `spark.jars.packages`.",
        examples=[["org.mongodb.spark:mongo-spark-connector_2.13:10.5.0"]],
    ),
]


class Cluster(Part):
    """A Kafka cluster.

    options  client properties (`security.protocol`, ...), without Spark's prefix `kafka.`
    """

    bootstrap_servers: Annotated[str, AfterValidator(_addresses)]
    """HOST:PORT of brokers, separated by commas."""
    options: Options = {}


class Origin(Part):
    """A source."""

    @property
    def is_static(self) -> bool:
        """Whether a stream has it as a table, and not as a stream."""
        return False


PartitionNumbers = Annotated[
    list[Annotated[int, Field(ge=0, lt=1_000_000_000)]], Field(min_length=1)
]
Assigned = Annotated[dict[Topic, PartitionNumbers], Field(min_length=1)]


class KafkaSource(Origin):
    """Kafka topics; one row per record.

    Columns: key, value (binary), topic, partition, offset, timestamp, timestampType, and with
    `headers` headers (array of key and value).
    """

    kind: Literal["kafka"]
    cluster: Text
    """A table of `[clusters]`."""
    subscribe: Annotated[list[Topic], Field(min_length=1)] | None = None
    """Topics; this, `pattern` or `assign` must be given.  Spark's `subscribe`."""
    pattern: Text | None = None
    """A regular expression of Java for topics, later ones included.  Spark's `subscribePattern`."""
    assign: Assigned | None = None
    """Topic -> numbers of partitions.  Spark's `assign`."""
    starting_offsets: Offsets = "earliest"
    """Where the first run starts, or topic -> partition -> offset (-2 earliest, -1 latest);
    later ones continue from the checkpoint.  Spark's `startingOffsets`."""
    ending_offsets: Offsets = "latest"
    """In batch mode only."""
    starting_timestamp_ms: Annotated[int, Field(ge=0)] | None = None
    """Instead of `starting_offsets`: the first record at or after this time, in ms since 1970;
    the end where there is none.  Spark's `startingTimestamp`."""
    max_offsets_per_trigger: Annotated[int, Field(ge=1, le=(1 << 63) - 1)] | None = None
    """Bound on the records of a batch of a stream, over all partitions.  Spark's
    `maxOffsetsPerTrigger`."""
    headers: bool = False
    """Add the column `headers`.  Spark's `includeHeaders`."""
    fail_on_data_loss: bool = True
    """Fail when records were deleted before they were read.  Spark's `failOnDataLoss`."""
    options: Options = {}
    """Further options of Spark's Kafka source."""

    @model_validator(mode="after")
    def _one_way_to_choose(self) -> Self:
        chosen = [self.subscribe, self.pattern, self.assign]
        if sum(way is not None for way in chosen) != 1:
            raise ValueError("one of subscribe, pattern and assign must be given")
        return self

    @model_validator(mode="after")
    def _one_way_to_start(self) -> Self:
        if self.starting_timestamp_ms is not None and "starting_offsets" in self.model_fields_set:
            raise ValueError("starting_timestamp_ms and starting_offsets exclude each other")
        for key in ("starting_offsets", "ending_offsets"):
            offsets = getattr(self, key)
            if isinstance(offsets, dict) and self.pattern is None:
                _check_topics(key, offsets, self.topics)
        return self

    @property
    def topics(self) -> list[str]:
        """The named topics, in order; empty for a pattern."""
        return list(dict.fromkeys(self.subscribe or self.assign or []))


def _check_topics(key: str, offsets: dict[str, dict[str, int]], topics: list[str]) -> None:
    """Check that every topic has offsets; Spark requires one for each partition."""
    for topic in topics:
        if not offsets.get(topic):
            raise ValueError(f"{key} must name the partitions of every topic; {topic} is missing")
    for topic in offsets:
        if topic not in topics:
            raise ValueError(f"{key}: {topic} is not read; there are: {', '.join(topics)}")


FileFormat = Annotated[
    Literal["json", "csv", "parquet", "orc", "text"],
    Field(
        description="Of each file; JSON has one object per line, and text is one STRING column, a "
        "row per line.  Spark's `format`."
    ),
]


class FileSource(Origin):
    """A folder of files; new files are new rows.

    schema  the columns, as in `CREATE TABLE`: "id STRING, amount DOUBLE"; for text one STRING
    epoch   the unit of numbers in TIMESTAMP columns of JSON and CSV.  Without it such numbers are
            null, like any value of another type.  With the option `timestampFormat` or `mode` Spark
            parses times itself, and reads numbers in JSON as seconds
    """

    kind: Literal["files"]
    path: Text
    """The folder, relative to the pipeline file; or a URI that Spark reads."""
    format: FileFormat
    row_schema: Text = Field(alias="schema")
    epoch: Epoch = None
    max_files_per_trigger: Count | None = None
    """Bound on the new files of a batch of a stream.  Spark's `maxFilesPerTrigger`."""
    options: Options = {}
    """Further options of Spark's reader of the format."""

    @field_validator("row_schema")
    @classmethod
    def _known_types(cls, text: str, info: ValidationInfo) -> str:
        names = (flat_columns_of if info.data.get("format") == "csv" else columns_of)(text)
        if info.data.get("format") == "text" and len(names) != 1:
            raise ValueError('text has one column: schema = "value STRING"')
        return text

    @model_validator(mode="after")
    def _epoch_has_columns(self) -> Self:
        if self.epoch is not None and not self.has_texts:
            raise ValueError("epoch: for JSON and CSV without options timestampFormat and mode")
        check_epoch(self.epoch, self.row_schema)
        return self

    @property
    def has_texts(self) -> bool:
        """Whether times are parsed from text here, and not by Spark."""
        options = {name.lower() for name in self.options}
        return self.format in ("json", "csv") and not options & {"timestampformat", "mode"}


class TableSource(Origin):
    """A table of a database, to join a stream with; each batch reads it again."""

    kind: Literal["jdbc"]
    url: Url
    """The JDBC address; a SQLite file is relative to the pipeline file."""
    table: Text
    """The table, or a query in parentheses with a name.  Spark's `dbtable`."""
    options: Options = {}
    """Further options of Spark's JDBC source, such as `driver` and `user`."""

    @property
    def is_static(self) -> bool:
        """Each batch of a stream reads the table again."""
        return True


class RateSource(Origin):
    """Rows with `timestamp` and an ascending `value`, generated by Spark to try a pipeline."""

    kind: Literal["rate"]
    rows_per_second: Count
    """Spark's `rowsPerSecond`."""


class SparkSource(Origin):
    """Any connector of Spark, by its format and options; Delta Lake and Iceberg among them.

    schema  the columns, as in `CREATE TABLE`, for a connector that does not know them.  Spark's
            `schema`
    """

    kind: Literal["spark"]
    format: Text = Field(examples=["delta", "iceberg", "mongodb"])
    """The name of the connector.  Spark's `format`."""
    path: Text | None = None
    """The path of the table, relative to the pipeline file; or a URI.  Spark's `load`."""
    table: Text | None = Field(None, examples=["lake.shop.orders"])
    """Instead of `path`, the table in a catalog of `[pipeline.spark]`.  Spark's `table`."""
    row_schema: Text | None = Field(None, alias="schema")
    static: bool = False
    """In a stream, the table as a whole to join with, and not its new rows.  Spark's `read`
    instead of `readStream`; whether later batches see changes depends on the connector."""
    packages: Packages = []
    options: Options = {}
    """Options of the connector."""

    @field_validator("row_schema")
    @classmethod
    def _known_types(cls, text: str | None) -> str | None:
        if text is not None:
            columns_of(text)
        return text

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        _check_place(self.path, self.table)
        return self

    @property
    def is_static(self) -> bool:
        return self.static


def _check_place(path: str | None, table: str | None) -> None:
    if path is not None and table is not None:
        raise ValueError("path and table exclude each other")


Source = Annotated[
    KafkaSource | FileSource | TableSource | SparkSource | RateSource, Field(discriminator="kind")
]


class End(Part):
    """A sink."""

    source: Name = Field(alias="from")
    """The source or step whose rows are written."""
    restart: Restart | None = None
    """Start the query of this sink again when it has failed; None: as `[pipeline.restart]` says."""


class KafkaSink(End):
    """A Kafka topic.

    delivery_guarantee  at_least_once: Spark's connector writes, and a batch that is repeated after
                        a crash writes its records again.  exactly_once: each batch is written in
                        one transaction, once; `options`, and those of the cluster, are then
                        properties of librdkafka's producer
    value  columns of a JSON object, "*" for all; bytes (such as a kept `key`) are in base64.
           "value" and None: the column `value`, unchanged
    key    the column of the record key; None: the column `key` if it exists
    """

    kind: Literal["kafka"]
    cluster: Text
    """A table of `[clusters]`."""
    topic: Topic | None = None
    """None: the topic is in the column `topic`."""
    key: Text | None = None
    value: Columns | Literal["*", "value"] | None = "*"
    output_mode: OutputMode = "append"
    delivery_guarantee: Literal["at_least_once", "exactly_once"] = "at_least_once"
    options: Options = {}
    """Further options of Spark's Kafka sink, or properties of the exactly-once producer."""

    @property
    def is_exactly_once(self) -> bool:
        """Whether batches are written in transactions."""
        return self.delivery_guarantee == "exactly_once"

    @model_validator(mode="after")
    def _one_topic(self) -> Self:
        if self.is_exactly_once and self.topic is None:
            raise ValueError('delivery_guarantee = "exactly_once" needs one topic: topic = ...')
        return self


class FileSink(End):
    """A folder of files, exactly once: Spark's commit log in it lists the committed files."""

    kind: Literal["files"]
    path: Text
    """The folder, relative to the pipeline file; or a URI that Spark writes."""
    format: FileFormat
    partition_by: Columns | None = None
    """Columns whose values name folders, as `day=2026-01-01/`.  Spark's `partitionBy`."""
    options: Options = {}
    """Further options of Spark's writer of the format."""


class TableSink(End):
    """A table of a database with upserts by key, so a repeated batch changes nothing.

    keys       the columns of the primary key
    latest_by  the column by which the newer of two rows with one key is kept, in whatever order
               they arrive; None: the row of the later batch is kept.  If it is in `omit`, rows
               of a batch are compared, but not those of the table
    delete_by  the BOOLEAN column that is true for a row which deletes its key, such as `deleted`
               of a parse step; it is not stored, and requires `latest_by`
    """

    kind: Literal["jdbc"]
    url: Url
    """The JDBC address of a SQLite file, relative to the pipeline file, of PostgreSQL or MariaDB.
    MariaDB stores texts in keys as VARCHAR(255), and times in UTC."""
    table: Text
    """The table; `schema.table` in PostgreSQL."""
    keys: Columns
    latest_by: Text | None = None
    delete_by: Text | None = None
    omit: Names = []
    """Columns that are not stored, such as the `offset` that `latest_by` names."""
    output_mode: OutputMode = "append"
    create: bool = True
    """Create the table unless it exists."""

    @field_validator("url")
    @classmethod
    def _known_database(cls, url: str) -> str:
        if database_of(url) not in DATABASES:
            known = ", ".join(f"jdbc:{name}:..." for name in DATABASES)
            raise ValueError(f"{without_options(url)!r} is not allowed; allowed: {known}")
        return url

    @model_validator(mode="after")
    def _deletes_are_ordered(self) -> Self:
        if self.delete_by is not None and self.latest_by is None:
            raise ValueError(
                "delete_by needs latest_by: of a row and its deletion in one batch the later counts"
            )
        for name in self.keys:
            if name in self.omit or name == self.delete_by:
                raise ValueError(f"the key {name!r} must be stored")
        return self


class ConsoleSink(End):
    """Standard output."""

    kind: Literal["console"]
    output_mode: OutputMode = "append"
    rows: Count = 20
    """Rows of a batch that are printed.  Spark's `numRows`."""


class SparkSink(End):
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
    partition_by: Columns | None = None
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
        _check_place(self.path, self.table)
        return self


def _http_address(url: str) -> str:
    if re.match(r"https?://[^/?#@\s]+([/?]\S*)?$", url) is None:
        raise ValueError("not an address like https://HOST/PATH; an account belongs into headers")
    return url


class HttpSink(End):
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
    """Of each request."""
    value: Columns | Literal["*", "value"] = "*"
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
