"""What all parts of a pipeline file share: strictness, and the small types."""

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
    """A duration as a model holds it: a number, a space and a unit."""
    number, unit = duration.split(" ")
    return int(number) * UNITS_MS[unit.removesuffix("s")]


def _spelled(duration: str) -> str:
    """`2s`, `20 secs`, `1 Minute` as Spark writes them: `2 seconds`."""
    match = re.fullmatch(rf"\s*([0-9]{{1,{DIGITS_MAX}}})\s*([A-Za-z]+)\s*", duration)
    unit = UNITS.get(match[2].lower()) if match is not None else None
    if match is None or unit is None:
        raise ValueError(
            f"{duration!r} is no duration; write a number and a unit, as '20 seconds' or"
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
        raise ValueError(f"{duration} is no length")
    return duration


def twice(names: list[str]) -> str | None:
    """The first name that stands there twice; Spark does not tell upper from lower case."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            return name
        seen.add(name.lower())
    return None


def _unique(names: list[str]) -> list[str]:
    again = twice(names)
    if again is not None:
        raise ValueError(f"{again!r} stands there twice")
    return names


Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""Of sources, steps and sinks: each is a view that SQL may name."""
Text = Annotated[str, Field(min_length=1)]
Names = Annotated[list[Text], AfterValidator(_unique)]
"""Of columns, none twice."""
Columns = Annotated[list[Text], Field(min_length=1), AfterValidator(_unique)]
"""The same, at least one."""
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
Duration = Annotated[
    str,
    AfterValidator(_spelled),
    AfterValidator(_bounded),
]
"""A number and a unit, up to 100 years; held as Spark writes intervals: `20 seconds`."""
Length = Annotated[Duration, AfterValidator(_positive)]
Options = dict[str, str | int | float | bool]


class Part(BaseModel):
    """A table of the file: unknown keys and values of other types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
