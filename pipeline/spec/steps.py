"""The steps between sources and sinks.  Each step is a view with the step's name."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from odradek.pipeline.spec.field_types import (
    ColumnNames,
    Duration,
    Length,
    Name,
    Names,
    Options,
    Part,
    Text,
    duration_ms,
    first_duplicate,
)
from odradek.pipeline.spec.parse_step import Parse, Step
from odradek.pipeline.spec.row_schema import columns_of

Expressions = Annotated[dict[str, Text], Field(min_length=1)]
"""Column -> SQL expression."""


Watermark = Annotated[
    Duration | None,
    Field(
        description="How late rows may be; to be left out when an earlier step has set it, and in "
        "batch mode.  Spark's withWatermark."
    ),
]
EventTime = Annotated[Text, Field(description="The column with the event time, a TIMESTAMP.")]
GroupColumns = Annotated[Names, Field(description="Columns; without them all rows are one group.")]


BOUNDS: Final = ("window_start", "window_end")


class Filter(Step):
    """Keeps the rows that meet all given conditions.

    matches  column -> regular expression of Java that matches a part of the value
    equals   column -> value of the column's type
    model    a classifier of `odradek pipeline train`; rows of the class `keep_class` are kept
    """

    kind: Literal["filter"]
    where: Text | None = None
    """A SQL condition."""
    matches: dict[str, Text] = {}
    equals: dict[str, str | int | float | bool] = {}
    model: Text | None = None
    text_column: Text = "text"
    """The column that `model` classifies."""
    keep_class: Text = "1"
    """The class whose rows `model` keeps."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.where or self.matches or self.equals or self.model):
            raise ValueError("one of where, matches, equals and model must be given")
        return self


class Map(Step):
    """Adds or replaces columns; `only` drops all others."""

    kind: Literal["map"]
    columns: Expressions
    """Column -> SQL expression."""
    only: bool = False
    """Drop all other columns."""


class Mask(Step):
    """Masks the values of columns: `hash` (SHA-256, salted), `last4`, `null` or `constant`."""

    kind: Literal["mask"]
    columns: ColumnNames
    """The columns that are masked."""
    how: Literal["hash", "last4", "null", "constant"]
    """`hash`: SHA-256 of salt and value in hexadecimal; `last4`: `*` for all but the last four
    characters of longer texts; `null`; `constant`: the text of `constant`."""
    salt: str = ""
    """Before the value that is hashed."""
    constant: str = "***"
    """The value of all masked columns with `how = \"constant\"`."""


class Route(Step):
    """Adds the column `topic`, given by the first rule whose condition is true.

    rules  topic -> SQL condition, in order
    """

    kind: Literal["route"]
    rules: Expressions
    otherwise: Text | None = None
    """The topic of rows without a matching rule; None: they are dropped."""


class Deduplicate(Step):
    """Keeps one row per key; a stream stores keys for the time `watermark`."""

    kind: Literal["deduplicate"]
    keys: ColumnNames
    """Columns in which rows with equal values are one."""
    time: EventTime
    watermark: Watermark = None


def _check_slide(length: str | None, slide: str | None) -> None:
    if length is not None and slide is not None and duration_ms(slide) > duration_ms(length):
        raise ValueError(
            f"slide {slide} is longer than length {length}: some rows would be in no window"
        )


def _check_names(names: list[str]) -> None:
    again = first_duplicate(names)
    if again is not None:
        raise ValueError(f"column {again!r} would exist twice; give it another name")


class Window(Step):
    """Aggregates over windows of event time.  Rows later than `watermark` are dropped.

    One row per window and group: window_start, window_end, the groups, the aggregates.

    slide  from one sliding window to the next; without it windows do not overlap
    gap    session windows, which end after so long without a row of the group; without `length`
    """

    kind: Literal["window"]
    time: EventTime
    watermark: Watermark = None
    length: Length | None = None
    """Length of tumbling and sliding windows."""
    slide: Length | None = None
    gap: Length | None = None
    group_by: GroupColumns = []
    aggregates: Expressions
    """Column -> SQL aggregate, such as `count(*)`, `sum(amount)`."""

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
    """Joins the rows of two views.

    on       SQL condition; the left rows are `l`, the right ones `r`
    columns  of the result: expressions over `l` and `r`
    left_time, right_time
             for two streams: the event times that get the watermark; to be left out for a side on
             which an earlier step has set one
    """

    kind: Literal["join"]
    right: Name
    """The source or step with the right rows; `from` has the left ones."""
    on: Text
    columns: Expressions
    how: Literal["inner", "left", "right", "full"] = "inner"
    """Which rows without a partner are kept."""
    left_time: Text | None = None
    right_time: Text | None = None
    watermark: Duration | None = None
    """How late rows of two streams may be; the SQL condition must bound their times."""

    @property
    def views(self) -> dict[str, str]:
        return {"from": self.source, "right": self.right}

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
    time: EventTime
    watermark: Watermark = None
    length: Length
    """Length of the windows."""
    slide: Length | None = None
    """From one window to the next; None: `length`."""
    x: Text
    y: Text
    group_by: GroupColumns = []

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
    time: EventTime
    watermark: Watermark = None
    length: Length
    """Length of the windows."""
    column: Text
    """The column whose values are counted."""
    k: Annotated[int, Field(ge=1, le=10_000)]
    """How many values a window has."""

    @model_validator(mode="after")
    def _other_name(self) -> Self:
        if self.column in ("window_start", "window_end", "rank", "count", "share"):
            raise ValueError(f"column {self.column!r} would exist twice; rename it with a map step")
        return self


class Anomalies(Step):
    """Adds score, expected and is_anomaly to each row, per group, in order of time.

    zscore  distance from the mean of the last `history` rows in standard deviations
    ewma    distance from the exponentially weighted mean (weight `alpha`) in weighted deviations

    `minimum` anomalies in a row are a new level: later rows are compared with them.  A stream
    never drops the state of a group.
    """

    kind: Literal["anomalies"]
    method: Literal["zscore", "ewma"]
    """How `expected` and its deviation are computed."""
    time: EventTime
    value: Text
    """The column that is judged."""
    group_by: GroupColumns = []
    threshold: Annotated[float, Field(gt=0)] = 4.0
    """A row with a score above it, or below its negative, is an anomaly."""
    history: Annotated[int, Field(ge=2, le=10_000)] = 100
    """Rows of a group that `zscore` remembers."""
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """The weight of the newest row in `ewma`."""
    minimum: Annotated[int, Field(ge=2, le=10_000)] = 10
    """Rows of a group before a row can be an anomaly."""

    @model_validator(mode="after")
    def _enough_history(self) -> Self:
        if self.method == "zscore" and self.minimum > self.history:
            raise ValueError(
                f"minimum {self.minimum} is more than history {self.history}: no row could be an"
                " anomaly"
            )
        return self


class Sql(Part):
    """A SQL query over earlier views; `file` is relative to the pipeline file.

    watermarks  view -> {time column -> duration}, set before the query
    """

    kind: Literal["sql"]
    query: Text | None = None
    """The query; this or `file` must be given."""
    file: Text | None = None
    """A file with the query, relative to the pipeline file."""
    watermarks: dict[str, dict[str, Duration]] = {}

    @property
    def views(self) -> dict[str, str]:
        """None: which views the query reads Spark knows."""
        return {}

    @model_validator(mode="after")
    def _one_text(self) -> Self:
        if (self.query is None) == (self.file is None):
            raise ValueError("one of query and file must be given")
        return self


Reference = Annotated[
    str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$", examples=["scores:score"])
]
"""`module:name`; modules in the folder of the pipeline file are found first."""


class Udf(Step):
    """Adds a column that a Python function computes from others.

    The function gets the values of `inputs` in their order: with `pandas` a Series for each, of
    many rows at once, and otherwise one value for each.  Spark's `pandas_udf` and `udf`.
    """

    kind: Literal["udf"]
    function: Reference
    """`module:name` of the function.  Modules in the folder of the pipeline file are sent to the
    workers; others must be installed there."""
    inputs: ColumnNames
    """The columns that the function gets."""
    column: Text
    """The column that is added or replaced."""
    returns: Text = Field(examples=["DOUBLE", "ARRAY<STRING>"])
    """The SQL type of the column."""
    pandas: bool = True
    """Whether the function takes and returns Series of pandas."""

    @field_validator("returns")
    @classmethod
    def _known_type(cls, text: str) -> str:
        columns_of(f"result {text}")
        return text


class Python(Step):
    """A Python function from DataFrame to DataFrame, for what no other step does.

    The function gets the rows of `from`, a stream or a batch, and `options` as named arguments.
    """

    kind: Literal["python"]
    step: Reference
    """`module:name` of the function.  Modules in the folder of the pipeline file are sent to the
    workers; others must be installed there."""
    options: Options = {}
    """Named arguments of the function."""


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
    | Udf
    | Python
    | Sql,
    Field(discriminator="kind"),
]
ByRow = Parse | Filter | Map | Mask | Route | Udf
"""Steps that make each of their rows of one row."""
WithWatermark = Deduplicate | Window | Correlate | TopKeys
"""Steps with state that may set the watermark of their `time`."""
