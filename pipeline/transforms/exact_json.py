"""Reads JSON into columns so that a number in a STRING keeps its digits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

MARK: Final = "\ufdd0"
"""Begins a number that was made a string; Unicode reserves this character for such uses."""
NUMBER: Final = r"-?[0-9][0-9.eE+-]*+"
_OTHERS: Final = r"""(?:[^"'0-9-]|-(?![0-9])|"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')*+"""
NUMBERS: Final = rf"(?s)\G({_OTHERS})({NUMBER})"
"""A number and what is between it and the number before.  All repetitions are possessive: Java
matches others by recursion, which overflows the stack on a long text.  Spark reads '...' too."""
MARKED: Final = rf'"?{MARK}({NUMBER})"?'
WRITTEN: Final = r"[:\[,\s](?:-?[0-9]+[.eE]|-0)"
"""A number in a JSON text that a double may change."""
REWRITTEN: Final = (
    r'(?s)^(?:"|0$|-?[0-9]+\.|[\[{].*[:\[,](?:-?[0-9]+\.|0[,\]}]|"-?(?:Infinity|NaN)"))'
)
"""A value that Spark may have written from a double: `1.1` from `1.10`, `100.0` from `1e2`, `0`
from `-0`, `"Infinity"` from `1e400`; alone, or in an array or object."""


def read_json(
    rows: DataFrame,
    text: Column,
    schema: StructType,
    texts: StructType,
    target: str,
    options: dict[str, str],
) -> DataFrame:
    """Add the column `target`: what `from_json` reads, with numbers in STRINGs as they are written.

    Spark's `from_json` passes a number that it reads into a STRING, alone or in an array or
    object, through a double.  Where one may be among the columns of `texts`, the text is read again
    with all numbers as strings.

    texts   the STRINGs of `schema`, from `texts_of`
    cost    a text with such a number is parsed twice
    """
    first, second = f"{target}_read", f"{target}_marked"
    rows = with_value(
        rows, target if not texts.fields else first, F.from_json(text, schema, options)
    )
    if not texts.fields:
        return rows
    read, exact = F.col(first), F.col(second)
    is_rewritten = reduce(lambda left, right: left | right, _conditions(read, texts))
    again = F.from_json(_marked(text), texts, options)
    rows = with_value(rows, second, F.when(is_rewritten & ~text.contains(MARK), again))
    merged = _merged(read, exact, schema, texts)
    return with_value(rows, target, F.when(exact.isNull(), read).otherwise(merged))


def with_value(rows: DataFrame, name: str, value: Column) -> DataFrame:
    """Add a column whose value is computed once for each row.

    Spark's optimizer copies the expression of `withColumn` into each place that uses the column,
    and evaluates copies in the branches of a CASE again.  It does not copy what it explodes.
    """
    return rows.select("*", F.explode(F.array(value)).alias(name))


def with_marks(text: Column) -> Column:
    """The text, where needed with its numbers as strings that begin with MARK.

    A STRING that `from_json` reads from it goes through `without_marks`.
    """
    return F.when(text.rlike(WRITTEN) & ~text.contains(MARK), _marked(text)).otherwise(text)


def without_marks(value: Column) -> Column:
    """A STRING with its numbers as they are written."""
    return F.regexp_replace(value, MARKED, "$1")


def _marked(text: Column) -> Column:
    return F.regexp_replace(text, NUMBERS, f'$1"{MARK}$2"')


def texts_of(schema: StructType) -> StructType:
    """The columns and fields that are or contain a STRING, and nothing else."""
    texts = ((field.name, _texts(field.dataType)) for field in schema.fields)
    return StructType([StructField(name, kind) for name, kind in texts if kind is not None])


def _texts(kind: DataType) -> DataType | None:
    match kind:
        case StringType():
            return kind
        case StructType():
            inner = texts_of(kind)
            return inner if inner.fields else None
        case ArrayType():
            element = _texts(kind.elementType)
            return None if element is None else ArrayType(element)
        case MapType():
            value = _texts(kind.valueType)
            return None if value is None else MapType(kind.keyType, value)
        case _:
            return None


def _conditions(value: Column, texts: StructType) -> Iterator[Column]:
    for field in texts.fields:
        yield F.coalesce(_is_rewritten(value[field.name], field.dataType), F.lit(False))


def _is_rewritten(value: Column, kind: DataType) -> Column:
    match kind:
        case StructType():
            return reduce(lambda left, right: left | right, _conditions(value, kind))
        case ArrayType():
            element = kind.elementType
            return F.exists(value, lambda item: _is_rewritten(item, element))
        case MapType():
            inner = kind.valueType
            return F.exists(F.map_values(value), lambda item: _is_rewritten(item, inner))
        case _:
            return value.rlike(REWRITTEN)


def _merged(read: Column, exact: Column, kind: DataType, texts: DataType) -> Column:
    """The value that was read, with the STRINGs of the second reading."""
    match kind:
        case StructType():
            assert isinstance(texts, StructType), "texts_of keeps the kinds"
            kinds = {field.name: field.dataType for field in texts.fields}
            fields = [
                _merged(
                    read[field.name], exact[field.name], field.dataType, kinds[field.name]
                ).alias(field.name)
                if field.name in kinds
                else read[field.name].alias(field.name)
                for field in kind.fields
            ]
            return F.when(read.isNotNull(), F.struct(*fields))
        case ArrayType():
            assert isinstance(texts, ArrayType), "texts_of keeps the kinds"
            element, inner = kind.elementType, texts.elementType
            return F.zip_with(read, exact, lambda left, right: _merged(left, right, element, inner))
        case MapType():
            assert isinstance(texts, MapType), "texts_of keeps the kinds"
            value, inner = kind.valueType, texts.valueType
            return F.transform_values(
                read, lambda key, left: _merged(left, F.element_at(exact, key), value, inner)
            )
        case _:
            return without_marks(exact)
