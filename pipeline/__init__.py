"""Pipelines on Spark: a file declares sources, steps and sinks; see README.md."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.pipeline.building import Pipeline

__all__ = ["Pipeline"]


def __getattr__(name: str) -> Any:
    # Imported when it is used: commands that report a missing library do without Spark.
    if name == "Pipeline":
        from odradek.pipeline.building import Pipeline

        return Pipeline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
