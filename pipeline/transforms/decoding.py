"""What a parse step parses in place of its column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column


@dataclass(frozen=True, slots=True)
class Decoding:
    """How the column of a parse step becomes what Spark parses.

    schema   the Avro schema of the payload; None for JSON
    outcome  the column -> a struct of payload (binary), and fault (string): the reason why there is
             no payload
    """

    schema: str | None
    outcome: Callable[[Column], Column]
