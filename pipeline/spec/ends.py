"""Where rows come from and where they go."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from pipeline.spec.common import Columns, Name, Options, Part, Text
from pipeline.spec.row_schema import columns_of

Offsets = Literal["earliest", "latest"] | dict[str, dict[str, int]]
"""A place for all partitions, or topic -> partition -> offset (-2 earliest, -1 latest)."""
OutputMode = Literal["append", "update", "complete"]


class Cluster(Part):
    """A Kafka cluster.

    options  client properties (`security.protocol`, ...), without Spark's prefix `kafka.`
    """

    bootstrap_servers: Text
    options: Options = {}


class KafkaSource(Part):
    """Topics; one row a record.

    Columns: key, value (binary), topic, partition, offset, timestamp, timestampType, and with
    `headers` headers (array of key and value).
    """

    kind: Literal["kafka"]
    cluster: Text
    subscribe: Columns | None = None
    pattern: Text | None = None
    assign: dict[str, list[int]] | None = None
    starting_offsets: Offsets = "earliest"
    ending_offsets: Offsets = "latest"
    """Of a batch."""
    starting_timestamp_ms: Annotated[int, Field(ge=0)] | None = None
    max_offsets_per_trigger: Annotated[int, Field(ge=1)] | None = None
    headers: bool = False
    fail_on_data_loss: bool = True
    options: Options = {}
    """More options of Spark's Kafka source."""

    @model_validator(mode="after")
    def _one_way_to_choose(self) -> Self:
        chosen = [self.subscribe, self.pattern, self.assign]
        if sum(way is not None for way in chosen) != 1:
            raise ValueError("one of subscribe, pattern and assign must be given")
        return self


class FileSource(Part):
    """A folder of files; new files are new rows.

    schema  of JSON lines and CSV, as in `CREATE TABLE`: "id STRING, amount DOUBLE"
    """

    kind: Literal["files"]
    path: Text
    format: Literal["json", "csv", "parquet"]
    row_schema: Text = Field(alias="schema")
    max_files_per_trigger: Annotated[int, Field(ge=1)] | None = None
    options: Options = {}

    @field_validator("row_schema")
    @classmethod
    def _known_types(cls, text: str) -> str:
        columns_of(text)
        return text


class TableSource(Part):
    """A table of a database, read once: something to join a stream with."""

    kind: Literal["jdbc"]
    url: Text
    table: Text
    options: Options = {}


class RateSource(Part):
    """Rows made by Spark, `timestamp` and `value` counting up: to try a pipeline."""

    kind: Literal["rate"]
    rows_per_second: Annotated[int, Field(ge=1)]


Source = Annotated[KafkaSource | FileSource | TableSource | RateSource, Field(discriminator="kind")]


class KafkaSink(Part):
    """A topic; at least once.

    value  columns that become a JSON object, "*" all of them; "value": the rows' own column `value`
           as it is, as does None
    key    the column that becomes the record's key; None: a column `key` if there is one

    A transactional sink waits for transactions in Spark's connector: what a batch repeats after a
    crash is repeated here.
    """

    kind: Literal["kafka"]
    source: Name = Field(alias="from")
    cluster: Text
    topic: Text | None = None
    """None: the rows have a column `topic`."""
    key: Text | None = None
    value: Columns | Literal["*", "value"] | None = "*"
    output_mode: OutputMode = "append"
    options: Options = {}


class FileSink(Part):
    """A folder of files, each row once: Spark's own commit log says which files count."""

    kind: Literal["files"]
    source: Name = Field(alias="from")
    path: Text
    format: Literal["json", "csv", "parquet"]
    partition_by: Columns | None = None
    options: Options = {}


class TableSink(Part):
    """A table of a database, upserted by key: a batch that is repeated changes nothing.

    keys       columns that are the table's primary key
    latest_by  a column that says which of two rows with one key is newer: the older one changes
               nothing, in whatever order they come; None: the row of the later batch counts
    """

    kind: Literal["jdbc"]
    source: Name = Field(alias="from")
    url: Text
    table: Text
    keys: Columns
    latest_by: Text | None = None
    output_mode: OutputMode = "append"
    create: bool = True
    """Make the table when it is not there."""


class ConsoleSink(Part):
    """The terminal."""

    kind: Literal["console"]
    source: Name = Field(alias="from")
    output_mode: OutputMode = "append"
    rows: Annotated[int, Field(ge=1)] = 20


Sink = Annotated[KafkaSink | FileSink | TableSink | ConsoleSink, Field(discriminator="kind")]
