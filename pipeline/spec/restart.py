"""When a query that has failed is started again."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from odradek.pipeline.spec.field_types import Duration, Part, duration_ms


class Restart(Part):
    """Start a query again when it has failed, from its last completed batch; others go on.

    For all queries in `[pipeline.restart]`, for one sink in `[sinks.NAME.restart]`.  Not in mode
    batch.
    """

    backoff_min: Duration = "1 second"
    """The delay after the first failure; it doubles with each further one."""
    backoff_max: Duration = "1 minute"
    """The longest delay."""
    attempts_max: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Starts in a row without a completed batch, after which a failure ends the pipeline; None: no
    bound; 0: the first failure does."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if duration_ms(self.backoff_min) > duration_ms(self.backoff_max):
            raise ValueError(f"backoff_min is above backoff_max, {self.backoff_max}")
        return self
