"""Where rows come from and where they go."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from odradek.pipeline.spec.common import Columns, Name, Options, Part, Text, Topic
from odradek.pipeline.spec.epoch import Epoch, check_epoch
from odradek.pipeline.spec.row_schema import columns_of, flat_columns_of

DATABASES: Final = ("sqlite", "postgresql")
"""Those that a sink writes to; a source reads any whose driver there is."""
HOST_LENGTH_MAX: Final = 63
"""Of a part between dots."""

Partition = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,8})$")]
Offset = Annotated[int, Field(ge=-2, le=(1 << 63) - 1)]
Count = Annotated[int, Field(ge=1, le=(1 << 31) - 1)]
Offsets = Literal["earliest", "latest"] | dict[Topic, dict[Partition, Offset]]
"""A place for all partitions, or topic -> partition -> offset (-2 earliest, -1 latest)."""
OutputMode = Literal["append", "update", "complete"]


def _addresses(text: str) -> str:
    given = [one for one in text.split(",") if one.strip()]
    for address in given or [text]:
        host, _, port = address.strip().rpartition(":")
        is_host = re.fullmatch(r"[A-Za-z0-9._%-]+|\[[A-Fa-f0-9:.%]+\]", host) is not None
        if not is_host or any(len(part) > HOST_LENGTH_MAX for part in host.split(".")):
            raise ValueError(f"{address!r} is no HOST:PORT; several are separated by commas")
        if not port.isascii() or not port.isdecimal() or not 1 <= int(port[:6]) <= 65_535:
            raise ValueError(f"{address!r} has no port from 1 to 65535")
    return text


def shown(url: str) -> str:
    """An address without what follows the database's name: it may hold a password."""
    return url.partition("?")[0]


def database_of(url: str) -> str:
    """The database's name in a JDBC address, as `sqlite`."""
    return url.split(":")[1]


def _address_of_database(url: str) -> str:
    if re.match(r"jdbc:[a-z0-9]+:.", url) is None:
        raise ValueError(f"{shown(url)!r} is no JDBC address, as jdbc:sqlite:FILE")
    if url == "jdbc:sqlite::memory:":
        raise ValueError("a database in memory is gone when its connection is; name a file")
    return url


Url = Annotated[str, AfterValidator(_address_of_database)]


class Cluster(Part):
    """A Kafka cluster.

    options  client properties (`security.protocol`, ...), without Spark's prefix `kafka.`
    """

    bootstrap_servers: Annotated[str, AfterValidator(_addresses)]
    options: Options = {}


PartitionNumbers = Annotated[
    list[Annotated[int, Field(ge=0, lt=1_000_000_000)]], Field(min_length=1)
]
Assigned = Annotated[dict[Topic, PartitionNumbers], Field(min_length=1)]


class KafkaSource(Part):
    """Topics; one row a record.

    Columns: key, value (binary), topic, partition, offset, timestamp, timestampType, and with
    `headers` headers (array of key and value).
    """

    kind: Literal["kafka"]
    cluster: Text
    subscribe: Annotated[list[Topic], Field(min_length=1)] | None = None
    pattern: Text | None = None
    assign: Assigned | None = None
    starting_offsets: Offsets = "earliest"
    ending_offsets: Offsets = "latest"
    """Of a batch."""
    starting_timestamp_ms: Annotated[int, Field(ge=0)] | None = None
    max_offsets_per_trigger: Annotated[int, Field(ge=1, le=(1 << 63) - 1)] | None = None
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
        """Those that are named, in order; none of a pattern."""
        return list(dict.fromkeys(self.subscribe or self.assign or []))


def _check_topics(key: str, offsets: dict[str, dict[str, int]], topics: list[str]) -> None:
    """Spark wants a place for each partition, so for each topic."""
    for topic in topics:
        if not offsets.get(topic):
            raise ValueError(f"{key} must name the partitions of every topic; {topic} is missing")
    for topic in offsets:
        if topic not in topics:
            raise ValueError(f"{key}: {topic} is not read; there are: {', '.join(topics)}")


class FileSource(Part):
    """A folder of files; new files are new rows.

    schema  of JSON lines and CSV, as in `CREATE TABLE`: "id STRING, amount DOUBLE"
    epoch   the unit of numbers in TIMESTAMP columns of JSON and CSV; without it they are null, as
            is everything that does not fit its column.  Options `timestampFormat` and `mode` leave
            times to Spark, which takes numbers in JSON for seconds
    """

    kind: Literal["files"]
    path: Text
    format: Literal["json", "csv", "parquet"]
    row_schema: Text = Field(alias="schema")
    epoch: Epoch = None
    max_files_per_trigger: Count | None = None
    options: Options = {}

    @field_validator("row_schema")
    @classmethod
    def _known_types(cls, text: str, info: ValidationInfo) -> str:
        (flat_columns_of if info.data.get("format") == "csv" else columns_of)(text)
        return text

    @model_validator(mode="after")
    def _epoch_has_columns(self) -> Self:
        if self.epoch is not None and not self.has_texts:
            raise ValueError("epoch: for JSON and CSV without options timestampFormat and mode")
        check_epoch(self.epoch, self.row_schema)
        return self

    @property
    def has_texts(self) -> bool:
        """Whether times are read from texts, and not by Spark."""
        options = {name.lower() for name in self.options}
        return self.format != "parquet" and not options & {"timestampformat", "mode"}


class TableSource(Part):
    """A table of a database, read once: something to join a stream with."""

    kind: Literal["jdbc"]
    url: Url
    table: Text
    options: Options = {}


class RateSource(Part):
    """Rows made by Spark, `timestamp` and `value` counting up: to try a pipeline."""

    kind: Literal["rate"]
    rows_per_second: Count


Source = Annotated[KafkaSource | FileSource | TableSource | RateSource, Field(discriminator="kind")]


class KafkaSink(Part):
    """A topic; at least once.

    value  columns that become a JSON object, "*" all of them, bytes (such as a `key` that a parse
           step has kept) in base64; "value": the rows' own column `value` as it is, as does None
    key    the column that becomes the record's key; None: a column `key` if there is one

    A transactional sink waits for transactions in Spark's connector: what a batch repeats after a
    crash is repeated here.
    """

    kind: Literal["kafka"]
    source: Name = Field(alias="from")
    cluster: Text
    topic: Topic | None = None
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
    url: Url
    table: Text
    keys: Columns
    latest_by: Text | None = None
    output_mode: OutputMode = "append"
    create: bool = True
    """Make the table when it is not there."""

    @field_validator("url")
    @classmethod
    def _known_database(cls, url: str) -> str:
        if database_of(url) not in DATABASES:
            known = ", ".join(f"jdbc:{name}:..." for name in DATABASES)
            raise ValueError(f"{shown(url)!r} is not allowed; allowed: {known}")
        return url


class ConsoleSink(Part):
    """The terminal."""

    kind: Literal["console"]
    source: Name = Field(alias="from")
    output_mode: OutputMode = "append"
    rows: Count = 20


Sink = Annotated[KafkaSink | FileSink | TableSink | ConsoleSink, Field(discriminator="kind")]
