"""Parses times, checks their range, and drops rows whose time is too far ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from odradek.pipeline.spec.field_types import duration_ms
from odradek.pipeline.spec.row_schema import Epoch
from odradek.pipeline.transforms.columns import column

AHEAD: Final = "ahead"
"""Prefix of the metrics that count dropped rows: `ahead:STEP:NUMBER`."""
NUMBER: Final = r"^\s*[+-]?[0-9]+\s*$"
FIRST_DAY: Final = -719_162
LAST_DAY: Final = 2_932_896
"""Bounds of the years 1 to 9999 in days since 1970."""
DAY_MICROS: Final = 86_400_000_000
OUTSIDE: Final = "is not in the years 1 to 9999"
KINDS: Final = (TimestampType, TimestampNTZType, DateType)


def as_texts(kind: DataType) -> DataType:
    """The type with STRING for each TIMESTAMP.

    Spark's JSON reader reads any integer as seconds; a string shows whether it was a number.
    """
    match kind:
        case TimestampType():
            return StringType()
        case StructType():
            fields = [
                StructField(field.name, as_texts(field.dataType), field.nullable)
                for field in kind.fields
            ]
            return StructType(fields)
        case ArrayType():
            return ArrayType(as_texts(kind.elementType), kind.containsNull)
        case MapType():
            return MapType(kind.keyType, as_texts(kind.valueType), kind.valueContainsNull)
        case _:
            return kind


def has_times(kind: DataType) -> bool:
    """Whether a type is or contains a TIMESTAMP, TIMESTAMP_NTZ or DATE."""
    return isinstance(kind, KINDS) or any(has_times(inner) for inner in _inner(kind))


def _inner(kind: DataType) -> Iterator[DataType]:
    match kind:
        case StructType():
            yield from (field.dataType for field in kind.fields)
        case ArrayType():
            yield kind.elementType
        case MapType():
            yield kind.valueType


def read(value: Column, kind: DataType, epoch: Epoch, path: str, *, is_text: bool = True) -> Column:
    """Convert a value of the type `as_texts(kind)` to `kind`.

    A time that cannot be parsed, or is outside of the years 1 to 9999, is null; see `is_wrong`.

    epoch    the unit of numbers: one for all, or one per path
    path     of the column, such as `order.at`
    is_text  whether a TIMESTAMP is a string in `value`
    """
    if not has_times(kind):
        return value
    match kind:
        case TimestampType():
            unit = epoch.get(path) if isinstance(epoch, dict) else epoch
            time = _from_text(value, unit) if is_text else value
            return F.when(_is_kept(F.unix_micros(time)), time)
        case TimestampNTZType():
            return F.when(_is_kept(F.unix_micros(value.cast("timestamp"))), value)
        case DateType():
            return F.when(F.unix_date(value).between(FIRST_DAY, LAST_DAY), value)
        case StructType():
            fields = [
                read(
                    value[field.name],
                    field.dataType,
                    epoch,
                    f"{path}.{field.name}",
                    is_text=is_text,
                ).alias(field.name)
                for field in kind.fields
            ]
            return F.when(value.isNotNull(), F.struct(*fields))
        case ArrayType():
            inner = kind.elementType
            return F.transform(
                value, lambda element: read(element, inner, epoch, path, is_text=is_text)
            )
        case MapType():
            inner = kind.valueType
            return F.transform_values(
                value, lambda _, element: read(element, inner, epoch, path, is_text=is_text)
            )
        case _:
            return value


def is_wrong(
    value: Column, kind: DataType, epoch: Epoch, path: str, *, is_text: bool = True
) -> Column:
    """Whether `read` replaces a time in the value by null; the result is never null."""
    match kind:
        case StructType():
            parts = [
                is_wrong(
                    value[field.name],
                    field.dataType,
                    epoch,
                    f"{path}.{field.name}",
                    is_text=is_text,
                )
                for field in kind.fields
                if has_times(field.dataType)
            ]
            return reduce(lambda left, right: left | right, parts, F.lit(False))
        case ArrayType():
            inner = kind.elementType
        case MapType():
            inner, value = kind.valueType, F.map_values(value)
        case _:
            return value.isNotNull() & read(value, kind, epoch, path, is_text=is_text).isNull()
    has_wrong = F.exists(
        value, lambda element: is_wrong(element, inner, epoch, path, is_text=is_text)
    )
    return F.coalesce(has_wrong, F.lit(False))


def _is_kept(micros: Column) -> Column:
    return micros.between(FIRST_DAY * DAY_MICROS, (LAST_DAY + 1) * DAY_MICROS - 1)


def _from_text(text: Column, unit: str | None) -> Column:
    """The time in a text; null for an invalid one, and for a number without a unit."""
    time = text.try_cast("timestamp")
    is_number = text.rlike(NUMBER)
    if unit is None:
        return F.when(~is_number, time)
    number = F.trim(text).try_cast("bigint")
    micros = {
        "s": F.try_multiply(number, F.lit(1_000_000)),
        "ms": F.try_multiply(number, F.lit(1_000)),
        "us": number,
        "ns": F.call_function("div", number, F.lit(1_000)),
    }
    return F.when(is_number, F.timestamp_micros(micros[unit])).otherwise(time)


def reasons(
    value: Column, kind: DataType, epoch: Epoch, path: str, default: str, *, is_text: bool
) -> Iterator[tuple[Column, str]]:
    """Conditions for a time that `is_wrong`, each with its reason; the first true one counts.

    default  the reason for a value that is not a time
    """
    if isinstance(kind, TimestampType) and is_text:
        unit = epoch.get(path) if isinstance(epoch, dict) else epoch
        is_number = value.rlike(NUMBER)
        if unit is None:
            yield is_number, f"{path} is a number without a unit: epoch gives it"
        else:
            yield is_number, f'{path} {OUTSIDE} with epoch = "{unit}"'
        yield _from_text(value, unit).isNotNull(), f"{path} {OUTSIDE}"
    elif isinstance(kind, KINDS):
        yield F.lit(True), f"{path} {OUTSIDE}"
    yield F.lit(True), default


@dataclass(frozen=True, slots=True)
class Bound:
    """Bound on the event times of a stream, relative to the time of their batch.

    step       the step that applies it
    ahead_max  a duration of the file
    columns    of a parse step: those that a later step uses for a watermark
    batch_ms   the time of the batch of a stream, in ms since 1970, where the rows are such a batch;
               None: they are a stream, or the rows of a batch pipeline
    """

    step: str
    ahead_max: str
    columns: Sequence[str] = ()
    batch_ms: int | None = None

    def is_of_stream(self, rows: DataFrame) -> bool:
        """Whether rows are those of a stream."""
        return rows.isStreaming or self.batch_ms is not None

    def is_ahead(self, time: Column) -> Column:
        """Whether a time is beyond the bound; the result is the same when the batch is repeated."""
        if self.batch_ms is None:
            now = F.unix_micros(F.current_timestamp())
        else:
            now = F.lit(self.batch_ms * 1_000)
        bound = now + F.lit(duration_ms(self.ahead_max) * 1_000)
        return F.coalesce(F.unix_micros(time.cast("timestamp")) > bound, F.lit(False))

    @property
    def reason(self) -> str:
        """The reason for a column beyond the bound."""
        return f"is more than {self.ahead_max} ahead of now"

    def drop_ahead(self, rows: DataFrame, time: str, number: int = 0) -> DataFrame:
        """Drop the rows beyond the bound, and count them in the metric AHEAD:STEP:NUMBER.

        In batch mode, which has no watermarks, all rows are kept.

        number  of the watermark, for a step that sets several
        """
        if not rows.isStreaming:
            return rows
        is_ahead = self.is_ahead(column(rows, time))
        counted = rows.observe(f"{AHEAD}:{self.step}:{number}", F.count_if(is_ahead).alias("rows"))
        return counted.where(~is_ahead)
