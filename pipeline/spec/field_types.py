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
    "week": 7 * 86_400_000,
}
DURATION_MAX_MS: Final = 100 * 365 * UNITS_MS["day"]


SPELLINGS: Final = {
    "millisecond": ("ms", "msec", "msecs", "milli", "millis"),
    "second": ("s", "sec", "secs"),
    "minute": ("m", "min", "mins"),
    "hour": ("h", "hr", "hrs"),
    "day": ("d",),
    "week": ("w", "wk", "wks"),
}
UNITS: Final = {
    spelling: unit for unit, others in SPELLINGS.items() for spelling in (unit, f"{unit}s", *others)
}
DIGITS_MAX: Final = 15
_NUMBER: Final = f"[0-9]{{1,{DIGITS_MAX}}}"
_WORD: Final = re.compile(rf"({_NUMBER})\s*([A-Za-z]+)")
_WORDS: Final = re.compile(rf"\s*({_NUMBER}\s*[A-Za-z]+\s*)+")
_ISO_8601: Final = re.compile(
    rf"P(?=[0-9T])(?:(?P<week>{_NUMBER})W)?(?:(?P<day>{_NUMBER})D)?"
    rf"(?:T(?=[0-9])(?:(?P<hour>{_NUMBER})H)?(?:(?P<minute>{_NUMBER})M)?(?:(?P<second>{_NUMBER})S)?)?"
)


def duration_ms(duration: str) -> int:
    """The milliseconds of a Duration: a number, a space and a unit."""
    number, unit = duration.split(" ")
    return int(number) * UNITS_MS[unit.removesuffix("s")]


def _normalized(duration: str) -> str:
    """Convert `2s`, `1 hour 30 min`, `PT1H30M` to the form of Spark: `2 seconds`, `90 minutes`."""
    parts = _parts(duration)
    if not parts:
        raise ValueError(
            f"{duration!r} is not a duration; write numbers and units, as '20 seconds', '1h30m' or"
            f" 'PT1M' (ISO 8601); units: {', '.join(f'{name}s' for name in UNITS_MS)}"
        )
    whole_ms = sum(int(number) * UNITS_MS[unit] for number, unit in parts)
    unit = parts[0][1]
    if len(parts) > 1:
        unit = [name for name in UNITS_MS if whole_ms % UNITS_MS[name] == 0][-1]
    number = whole_ms // UNITS_MS[unit]
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def _parts(duration: str) -> list[tuple[str, str]]:
    """Numbers and units; empty for a text that is not a duration."""
    iso = _ISO_8601.fullmatch(duration.strip().upper())
    if iso is not None:
        return [(number, unit) for unit, number in iso.groupdict().items() if number is not None]
    if _WORDS.fullmatch(duration) is None:
        return []
    parts = [(number, UNITS.get(unit.lower())) for number, unit in _WORD.findall(duration)]
    with_units = [(number, unit) for number, unit in parts if unit is not None]
    return with_units if len(with_units) == len(parts) else []


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
ColumnNames = Annotated[list[Text], Field(min_length=1), AfterValidator(_unique)]
"""Names of columns, without duplicates, at least one."""
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
Duration = Annotated[
    str,
    Field(json_schema_extra={"format": "duration"}),
    AfterValidator(_normalized),
    AfterValidator(_bounded),
]
"""A number and a unit, up to 100 years, in the form of Spark's intervals: `20 seconds`."""
Length = Annotated[Duration, AfterValidator(_positive)]
Options = dict[str, str | int | float | bool]


def text_of_option(value: object) -> str:
    """A value of the file as the text that Spark, Java and librdkafka read."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def texts(options: Options) -> dict[str, str]:
    """Options of the file as texts."""
    return {name: text_of_option(value) for name, value in options.items()}


class Part(BaseModel):
    """A table of the file; unknown keys and values of other types are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
