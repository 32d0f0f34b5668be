"""Sources of a pipeline file."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from odradek.pipeline.spec.ends import Count, FileFormat, Packages, Url, check_place, check_rejects
from odradek.pipeline.spec.field_types import Length, Options, Part, Text, Topic
from odradek.pipeline.spec.row_schema import Epoch, check_epoch, columns_of, flat_columns_of

Partition = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,8})$")]


Offset = Annotated[int, Field(ge=-2, le=(1 << 63) - 1)]


StartingOffsets = Literal["earliest", "latest"] | dict[Topic, dict[Partition, Offset]]
"""One position for all partitions, or topic -> partition -> offset (-2 earliest, -1 latest)."""


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

    rejects  topic (of `rejects_cluster`) for the records that Spark's reader cannot take, whose
             timestamp is after the year 294247, as dead letters with reason and position in
             headers `odradek.*`; None: such a record ends the query.  For streams
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
    starting_offsets: StartingOffsets = "earliest"
    """Where the first run starts, or topic -> partition -> offset (-2 earliest, -1 latest);
    later ones continue from the checkpoint.  Spark's `startingOffsets`."""
    ending_offsets: StartingOffsets = "latest"
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
    rejects: Topic | None = None
    rejects_cluster: Text | None = None
    """The table of `[clusters]` whose topic gets dead letters."""
    options: Options = {}
    """Further options of Spark's Kafka source."""

    @model_validator(mode="after")
    def _rejects_need_a_cluster(self) -> Self:
        check_rejects(self.rejects, self.rejects_cluster)
        return self

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


class FileSource(Origin):
    """A folder of files; new files are new rows, or with `static` a table to join with.

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
    static: bool = False
    """In a stream, all files as a table to join with.  It is read when the queries start, and kept
    in memory: files that are added, replaced or removed later change nothing before `refresh`."""
    refresh: Length | None = Field(None, examples=["5 minutes"])
    """Read a `static` folder again after each such time; batches that begin later have its files.
    None: it is read once."""
    options: Options = {}
    """Further options of Spark's reader of the format, such as `header = true` for CSV."""

    @field_validator("row_schema")
    @classmethod
    def _known_types(cls, text: str, info: ValidationInfo) -> str:
        names = (flat_columns_of if info.data.get("format") == "csv" else columns_of)(text)
        if info.data.get("format") == "text" and len(names) != 1:
            raise ValueError('text has one column: schema = "value STRING"')
        return text

    @model_validator(mode="after")
    def _tables_are_read_whole(self) -> Self:
        if self.refresh is not None and not self.static:
            raise ValueError("refresh: new files of a stream are new rows; allowed: static = true")
        if self.max_files_per_trigger is not None and self.static:
            raise ValueError("max_files_per_trigger: a static folder is read as a whole")
        return self

    @model_validator(mode="after")
    def _epoch_has_columns(self) -> Self:
        if self.epoch is not None and not self.has_texts:
            raise ValueError("epoch: for JSON and CSV without options timestampFormat and mode")
        check_epoch(self.epoch, self.row_schema)
        return self

    @property
    def is_static(self) -> bool:
        return self.static

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
        check_place(self.path, self.table)
        return self

    @property
    def is_static(self) -> bool:
        return self.static


Source = Annotated[
    KafkaSource | FileSource | TableSource | SparkSource | RateSource, Field(discriminator="kind")
]
