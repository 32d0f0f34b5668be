"""What happens to rows between a source and a sink.  Each step is a view named after it."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from odradek.pipeline.spec.common import (
    Columns,
    Duration,
    Length,
    Name,
    Names,
    Part,
    Text,
    Topic,
    duration_ms,
    twice,
)
from odradek.pipeline.spec.epoch import Epoch, check_epoch
from odradek.pipeline.spec.row_schema import avro_columns_of, columns_of, flat_columns_of

Expressions = Annotated[dict[str, Text], Field(min_length=1)]
"""Column -> SQL expression."""


Watermark = Duration | None
"""How late rows may be; None where a step above has said it, since it cannot be said twice."""
CORRUPT: Final = "_corrupt"
"""The column that tells what does not fit a schema."""
BOUNDS: Final = ("window_start", "window_end")


class Step(Part):
    """What all steps have."""

    source: Name = Field(alias="from")


class Parse(Step):
    """Bytes or text of one column to columns.

    schema   as in `CREATE TABLE`; with `format = "avro"` the Avro schema in JSON.  NOT NULL has the
             meaning of `required`
    epoch    the unit of numbers in TIMESTAMP columns of JSON and CSV; without it a row with such a
             number does not parse
    rejects  topic (of `rejects_cluster`) for what does not parse, with the reason and the place of
             the record in headers `odradek.*`, and with its own headers where the source reads them
             (`headers = true`); None: it is dropped
    """

    kind: Literal["parse"]
    format: Literal["json", "csv", "avro"]
    row_schema: Text = Field(alias="schema")
    epoch: Epoch = None
    column: Text = "value"
    keep: Names = []
    """Columns of the source that are kept beside the parsed ones, as they are: `key` of a Kafka
    source is bytes, which JSON of a sink has in base64.  For text let a map step above make
    `key = "CAST(key AS STRING)"`."""
    required: list[Text] = []
    """Parsed columns that may not be null."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    rejects: Topic | None = None
    rejects_cluster: Text | None = None

    @field_validator("row_schema")
    @classmethod
    def _known_types(cls, text: str, info: ValidationInfo) -> str:
        if info.data.get("format") == "avro":
            avro_columns_of(text)
        elif "format" in info.data:
            names = (flat_columns_of if info.data["format"] == "csv" else columns_of)(text)
            if CORRUPT in names:
                raise ValueError(f"a column {CORRUPT} is there already; give it another name")
        return text

    @model_validator(mode="after")
    def _known_columns(self) -> Self:
        is_avro = self.format == "avro"
        names = (avro_columns_of if is_avro else columns_of)(self.row_schema)
        for name in self.required:
            if name not in names:
                raise ValueError(
                    f"required: the schema has no {name!r}; it has: {', '.join(names)}"
                )
        again = twice([*names, *self.keep])
        if again is not None:
            raise ValueError(f"keep: the schema has a column {again!r} too")
        return self

    @model_validator(mode="after")
    def _epoch_has_columns(self) -> Self:
        if self.format == "avro" and self.epoch is not None:
            raise ValueError("epoch: an Avro schema gives the unit itself: timestamp-millis, ...")
        if self.format != "avro":
            check_epoch(self.epoch, self.row_schema)
        return self

    @model_validator(mode="after")
    def _rejects_need_a_cluster(self) -> Self:
        if (self.rejects is None) != (self.rejects_cluster is None):
            raise ValueError("rejects and rejects_cluster belong together")
        return self


class Filter(Step):
    """Keeps the rows for which all that is given holds.

    matches  column -> regular expression (Java's), found anywhere in it
    equals   column -> value of the column's type
    model    a classifier trained by `odradek pipeline train`: rows of its class `keep_class` stay
    """

    kind: Literal["filter"]
    where: Text | None = None
    matches: dict[str, Text] = {}
    equals: dict[str, str | int | float | bool] = {}
    model: Text | None = None
    text_column: Text = "text"
    keep_class: Text = "1"

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.where or self.matches or self.equals or self.model):
            raise ValueError("one of where, matches, equals and model must be given")
        return self


class Map(Step):
    """New or changed columns; `only` drops all others."""

    kind: Literal["map"]
    columns: Expressions
    only: bool = False


class Mask(Step):
    """Hides what is in columns: `hash` (SHA-256, salted), `last4`, `null` or `constant`."""

    kind: Literal["mask"]
    columns: Columns
    how: Literal["hash", "last4", "null", "constant"]
    salt: str = ""
    constant: str = "***"


class Route(Step):
    """Adds the column `topic`: the first rule that holds names it.

    rules  topic -> SQL condition, in order
    """

    kind: Literal["route"]
    rules: Expressions
    otherwise: Text | None = None
    """None: rows of no rule are dropped."""


class Deduplicate(Step):
    """One row per key; keys are remembered for `watermark`."""

    kind: Literal["deduplicate"]
    keys: Columns
    time: Text
    watermark: Watermark = None


def _check_slide(length: str | None, slide: str | None) -> None:
    if length is not None and slide is not None and duration_ms(slide) > duration_ms(length):
        raise ValueError(f"slide {slide} is longer than length {length}: rows would be left out")


def _check_names(names: list[str]) -> None:
    again = twice(names)
    if again is not None:
        raise ValueError(f"column {again!r} would be there twice; give it another name")


class Window(Step):
    """Aggregates over windows of event time.  Rows later than `watermark` are dropped.

    One row per window and group: window_start, window_end, the groups, the aggregates.

    slide  sliding windows; gap  session windows (then without `length`)
    """

    kind: Literal["window"]
    time: Text
    watermark: Watermark = None
    length: Length | None = None
    slide: Length | None = None
    gap: Length | None = None
    group_by: Names = []
    aggregates: Expressions

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.length is None) == (self.gap is None):
            raise ValueError("one of length (tumbling, sliding) and gap (session) must be given")
        if self.slide is not None and self.length is None:
            raise ValueError("slide needs length")
        _check_slide(self.length, self.slide)
        _check_names([*BOUNDS, *self.group_by, *self.aggregates])
        return self


class Join(Step):
    """Rows of two views.

    on       SQL condition; the left rows are `l`, the right ones `r`
    columns  of the result, as expressions over `l` and `r`
    left_time, right_time
             of two streams: their columns of time, which are given the watermark; not those of a
             side that has one from a step above
    """

    kind: Literal["join"]
    right: Name
    on: Text
    columns: Expressions
    how: Literal["inner", "left", "right", "full"] = "inner"
    left_time: Text | None = None
    right_time: Text | None = None
    watermark: Duration | None = None

    @model_validator(mode="after")
    def _times_and_watermark(self) -> Self:
        if (self.watermark is None) != (self.left_time is None and self.right_time is None):
            raise ValueError("watermark and left_time or right_time belong together")
        return self


class Correlate(Step):
    """Pearson's r of two columns per group over windows of event time.

    One row per window and group: window_start, window_end, the groups, r, count (of pairs).
    x, y  columns or SQL expressions
    """

    kind: Literal["correlate"]
    time: Text
    watermark: Watermark = None
    length: Length
    slide: Length | None = None
    x: Text
    y: Text
    group_by: Names = []

    @model_validator(mode="after")
    def _overlapping(self) -> Self:
        _check_slide(self.length, self.slide)
        _check_names([*BOUNDS, *self.group_by, "r", "count"])
        return self


class TopKeys(Step):
    """The k most frequent values of a column per window of event time.

    One row per window and value: window_start, window_end, rank, the column, count, share.
    """

    kind: Literal["top_keys"]
    time: Text
    watermark: Watermark = None
    length: Length
    column: Text
    k: Annotated[int, Field(ge=1, le=10_000)]

    @model_validator(mode="after")
    def _other_name(self) -> Self:
        if self.column in ("window_start", "window_end", "rank", "count", "share"):
            raise ValueError(
                f"column {self.column!r} would be there twice; rename it with a map step"
            )
        return self


class Anomalies(Step):
    """Adds score, expected and is_anomaly to each row, per group, in order of time.

    zscore  distance from the mean of the last `history` rows in standard deviations
    ewma    distance from the exponentially weighted mean (weight `alpha`) in weighted deviations

    `minimum` anomalies in a row are a new level, which is the measure from then on.  In a stream a
    group is remembered for ever.
    """

    kind: Literal["anomalies"]
    method: Literal["zscore", "ewma"]
    time: Text
    value: Text
    group_by: Names = []
    threshold: Annotated[float, Field(gt=0)] = 4.0
    history: Annotated[int, Field(ge=2, le=10_000)] = 100
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.1
    minimum: Annotated[int, Field(ge=2, le=10_000)] = 10
    """Rows of a group before any of them is called an anomaly."""

    @model_validator(mode="after")
    def _enough_history(self) -> Self:
        if self.method == "zscore" and self.minimum > self.history:
            raise ValueError(
                f"minimum {self.minimum} is more than history {self.history}: nothing is judged"
            )
        return self


class Sql(Part):
    """A query over the views above it; `file` is read beside the pipeline file.

    watermarks  view -> {time column -> duration}, put on the views before the query
    """

    kind: Literal["sql"]
    query: Text | None = None
    file: Text | None = None
    watermarks: dict[str, dict[str, Duration]] = {}

    @model_validator(mode="after")
    def _one_text(self) -> Self:
        if (self.query is None) == (self.file is None):
            raise ValueError("one of query and file must be given")
        return self


AnyStep = Annotated[
    Parse
    | Filter
    | Map
    | Mask
    | Route
    | Deduplicate
    | Window
    | Join
    | Correlate
    | TopKeys
    | Anomalies
    | Sql,
    Field(discriminator="kind"),
]
