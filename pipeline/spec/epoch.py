"""The unit of numbers in TIMESTAMP columns."""

from __future__ import annotations

from typing import Literal

from odradek.pipeline.spec.field_types import Text
from odradek.pipeline.spec.row_schema import times_of

Unit = Literal["s", "ms", "us", "ns"]
Epoch = Unit | dict[Text, Unit] | None
"""The unit of numbers since 1970 in TIMESTAMP columns: one for all, or column -> unit, where
`order.at` is a field in a column.  None: numbers are not accepted."""


def check_epoch(epoch: Epoch, row_schema: str) -> None:
    """Check that units are given for TIMESTAMP columns only.

    raises  ValueError
    """
    if epoch is None:
        return
    times = times_of(row_schema)
    if not times:
        raise ValueError("epoch: the schema has no TIMESTAMP column")
    for name in epoch if isinstance(epoch, dict) else ():
        if name not in times:
            raise ValueError(
                f"epoch: {name!r} is not a TIMESTAMP of the schema; there are: {', '.join(times)}"
            )
