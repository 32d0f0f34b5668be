"""How a Kafka sink writes its values, other than in JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column


@dataclass(frozen=True, slots=True)
class Encoding:
    """A format with a schema.

    columns  of the value, in the order of the schema
    encode   from a struct of them to bytes
    """

    columns: list[str]
    encode: Callable[[Column], Column]
