"""The unit of numbers in TIMESTAMP columns."""

from __future__ import annotations

from typing import Literal

from odradek.pipeline.spec.common import Text
from odradek.pipeline.spec.row_schema import times_of

Unit = Literal["s", "ms", "us", "ns"]
Epoch = Unit | dict[Text, Unit] | None
"""The unit of numbers in TIMESTAMP columns, counted from 1970: of all, or column -> unit, where
`order.at` is a field in a column.  None: numbers are refused there."""


def check_epoch(epoch: Epoch, row_schema: str) -> None:
    """See that units are given for TIMESTAMP columns.

    raises  ValueError
    """
    if epoch is None:
        return
    times = times_of(row_schema)
    if not times:
        raise ValueError("epoch: the schema has no TIMESTAMP whose numbers it could be the unit of")
    for name in epoch if isinstance(epoch, dict) else ():
        if name not in times:
            raise ValueError(
                f"epoch: {name!r} is no TIMESTAMP of the schema; there are: {', '.join(times)}"
            )
