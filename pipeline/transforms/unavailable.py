"""Finds the placeholders that stand in change events for values that the connector does not know.

Source: Debezium's `unavailable.value.placeholder`, `UnchangedToastedPlaceholder`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    NumericType,
    StringType,
    StructType,
)


def placeholders(value: Column, schema: StructType, placeholder: str) -> Iterator[Column]:
    """Yield the name of each column that is or contains the placeholder, as a STRING; else null.

    placeholder  as in the configuration of the connector: a text, or `hex:` and its bytes
    """
    for field in schema.fields:
        condition = _is_placeholder(value[field.name], field.dataType, _octets(placeholder))
        if condition is not None:
            yield F.when(condition, F.lit(field.name))


def _octets(placeholder: str) -> bytes:
    if placeholder.startswith("hex:"):
        return bytes.fromhex(placeholder.removeprefix("hex:"))
    return placeholder.encode()


def _is_placeholder(value: Column, kind: DataType, octets: bytes) -> Column | None:
    """Whether a value is or contains the placeholder; None for types that cannot."""
    match kind:
        case StringType():
            return value.isin(_texts(octets))
        case BinaryType():
            return value == F.lit(octets)
        case StructType():
            inner = (
                _is_placeholder(value[field.name], field.dataType, octets) for field in kind.fields
            )
            conditions = [
                F.coalesce(condition, F.lit(False)) for condition in inner if condition is not None
            ]
            return reduce(lambda left, right: left | right, conditions) if conditions else None
        case ArrayType():
            element = kind.elementType
            if isinstance(element, NumericType):
                numbers = F.array(*(F.lit(number) for number in _signed(octets)))
                return value == numbers.cast(ArrayType(element))
        case MapType():
            element, value = kind.valueType, F.map_values(value)
        case _:
            return None
    if _is_placeholder(F.lit(None), element, octets) is None:
        return None

    def is_placeholder(item: Column) -> Column:
        condition = _is_placeholder(item, element, octets)
        assert condition is not None, "the type may have a placeholder"
        return condition

    return F.exists(value, is_placeholder)


def _texts(octets: bytes) -> list[str]:
    """The placeholder in a column of text, which may have the JSON of an array, or bytes."""
    text = octets.decode("utf-8", "replace")
    encoded = [
        text,
        base64.b64encode(octets).decode(),
        base64.urlsafe_b64encode(octets).decode(),
        octets.hex(),
    ]
    arrays = [*([octet] for octet in encoded), _signed(octets), {text: text}]
    shown = [json.dumps(array, ensure_ascii=False, separators=(",", ":")) for array in arrays]
    return list(dict.fromkeys([*encoded, *shown]))


def _signed(octets: bytes) -> list[int]:
    """The bytes of Java, of which an array of numbers is made."""
    return [octet - 256 if octet > 127 else octet for octet in octets]
