"""What all parts of a pipeline file share: strictness, and the small types."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""Of sources, steps and sinks: each is a view that SQL may name."""
Text = Annotated[str, Field(min_length=1)]
Columns = Annotated[list[Text], Field(min_length=1)]
Duration = Annotated[str, Field(pattern=r"^\d+ (milliseconds?|seconds?|minutes?|hours?|days?)$")]
"""As Spark writes intervals: a number, a space and a unit."""
Options = dict[str, str | int | float | bool]


class Part(BaseModel):
    """A table of the file: unknown keys and values of other types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)
