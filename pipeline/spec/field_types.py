"""The base class of the tables in a pipeline file, and the types of their fields."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

UNITS_MS: Final = {
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
}
DURATION_MAX_MS: Final = 100 * 365 * UNITS_MS["day"]


SPELLINGS: Final = {
    "millisecond": ("ms", "msec", "msecs", "milli", "millis"),
    "second": ("s", "sec", "secs"),
    "minute": ("m", "min", "mins"),
    "hour": ("h", "hr", "hrs"),
    "day": ("d",),
}
UNITS: Final = {
    spelling: unit for unit, others in SPELLINGS.items() for spelling in (unit, f"{unit}s", *others)
}
DIGITS_MAX: Final = 15


def duration_ms(duration: str) -> int:
    """The milliseconds of a Duration: a number, a space and a unit."""
    number, unit = duration.split(" ")
    return int(number) * UNITS_MS[unit.removesuffix("s")]


def _normalized(duration: str) -> str:
    """Convert `2s`, `20 secs`, `1 Minute` to the form of Spark: `2 seconds`."""
    match = re.fullmatch(rf"\s*([0-9]{{1,{DIGITS_MAX}}})\s*([A-Za-z]+)\s*", duration)
    unit = UNITS.get(match[2].lower()) if match is not None else None
    if match is None or unit is None:
        raise ValueError(
            f"{duration!r} is not a duration; write a number and a unit, as '20 seconds' or"
            f" '1 minute'; units: {', '.join(f'{name}s' for name in UNITS_MS)}"
        )
    number = int(match[1])
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def _bounded(duration: str) -> str:
    if duration_ms(duration) > DURATION_MAX_MS:
        raise ValueError(f"{duration} is longer than 100 years")
    return duration


def _positive(duration: str) -> str:
    if duration_ms(duration) == 0:
        raise ValueError(f"{duration} is not positive")
    return duration


def first_duplicate(names: list[str]) -> str | None:
    """The first duplicate, ignoring case as Spark does; or None."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            return name
        seen.add(name.lower())
    return None


def _unique(names: list[str]) -> list[str]:
    again = first_duplicate(names)
    if again is not None:
        raise ValueError(f"{again!r} is given twice")
    return names


Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""The name of a source, step or sink, which is the name of a view in SQL."""
Text = Annotated[str, Field(min_length=1)]
Names = Annotated[list[Text], AfterValidator(_unique)]
"""Names of columns, without duplicates."""
Columns = Annotated[list[Text], Field(min_length=1), AfterValidator(_unique)]
"""Names of columns, without duplicates, at least one."""
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
Duration = Annotated[
    str,
    AfterValidator(_normalized),
    AfterValidator(_bounded),
]
"""A number and a unit, up to 100 years, in the form of Spark's intervals: `20 seconds`."""
Length = Annotated[Duration, AfterValidator(_positive)]
Options = dict[str, str | int | float | bool]


class Part(BaseModel):
    """A table of the file; unknown keys and values of other types are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
