"""What all parts of a pipeline file share: strictness, and the small types."""

from __future__ import annotations

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


def duration_ms(duration: str) -> int:
    """A duration as the file writes it."""
    number, unit = duration.split(" ")
    return int(number) * UNITS_MS[unit.removesuffix("s")]


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
    Field(pattern=r"^[0-9]{1,15} (milliseconds?|seconds?|minutes?|hours?|days?)$"),
    AfterValidator(_bounded),
]
"""As Spark writes intervals: a number, a space and a unit; up to 100 years."""
Length = Annotated[Duration, AfterValidator(_positive)]
Options = dict[str, str | int | float | bool]


class Part(BaseModel):
    """A table of the file: unknown keys and values of other types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
