"""The origins of event times, and the stateful steps of a query."""

from __future__ import annotations

import re
from collections.abc import Iterator

from odradek.pipeline.spec import steps
from odradek.pipeline.spec.model import REJECTS, PipelineSpec
from odradek.pipeline.spec.parse_step import Parse
from odradek.pipeline.spec.row_schema import columns_of
from odradek.pipeline.spec.sharing import shared_queries


def event_times(pipeline: PipelineSpec) -> dict[str, list[str]]:
    """Parse step -> its columns that a later step uses for a watermark.

    A column is followed through steps that keep or rename it; not through queries, joins and
    expressions.
    """
    times: dict[str, list[str]] = {}
    for view, column in _watermarked(pipeline):
        origin = _origin(pipeline, view, column)
        if origin is not None:
            name, time = origin
            columns = times.setdefault(name, [])
            if time not in columns:
                columns.append(time)
    return times


def _watermarked(pipeline: PipelineSpec) -> Iterator[tuple[str, str]]:
    """Yield view and column of each watermark."""
    for step in pipeline.steps.values():
        if isinstance(step, steps.Sql):
            for view, columns in step.watermarks.items():
                yield from ((view, column) for column in columns)
        elif isinstance(step, steps.Join):
            if step.left_time is not None:
                yield step.source, step.left_time
            if step.right_time is not None:
                yield step.right, step.right_time
        elif isinstance(step, steps.WithWatermark) and step.watermark is not None:
            yield step.source, step.time


def _origin(pipeline: PipelineSpec, view: str, column: str) -> tuple[str, str] | None:
    """The parse step that a column of a view comes from, and its name there; or None."""
    while (step := pipeline.steps.get(view)) is not None:
        if isinstance(step, Parse):
            if not step.is_text or step.row_schema is None:
                return view, column
            top = column.partition(".")[0].lower()
            if any(
                parsed.lower() in (top, column.lower()) for parsed in columns_of(step.row_schema)
            ):
                return view, column
        elif isinstance(step, steps.Map):
            expressions = {name.lower(): text for name, text in step.columns.items()}
            text = expressions.get(column.lower(), None if step.only else column)
            # Any other expression computes a new time.
            if text is None or re.fullmatch(r"[\w.]+", text.strip()) is None:
                return None
            column = text.strip()
        elif isinstance(step, steps.Mask | steps.Udf):
            changed = step.columns if isinstance(step, steps.Mask) else [step.column]
            if column.lower() in (name.lower() for name in changed):
                return None
        elif not isinstance(step, steps.Filter | steps.Route | steps.Deduplicate | steps.Anomalies):
            return None
        view = step.source
    return None


def stateful_steps(pipeline: PipelineSpec, query: str) -> list[str]:
    """The step of each stateful operator of a query, in Spark's order: the last of the plan first.

    A SQL or steps.Python step ends the list, since its operators are unknown.
    """
    for shared in shared_queries(pipeline):
        if shared.name == query:
            return list(_above(pipeline, shared.view))
    sink = pipeline.sinks.get(query)
    return list(_above(pipeline, sink.source if sink else query.removesuffix(REJECTS)))


def _above(pipeline: PipelineSpec, view: str) -> Iterator[str]:
    step = pipeline.steps.get(view)
    if isinstance(step, steps.Sql | steps.Python):
        yield view
    elif step is not None:
        if isinstance(step, steps.Join):
            is_stateful = not any(map(pipeline.is_static, step.views.values()))
        else:
            is_stateful = isinstance(step, steps.WithWatermark | steps.Anomalies)
        # Two operators of a steps.TopKeys: one counts, the other ranks the counts.
        yield from [view] * (2 if isinstance(step, steps.TopKeys) else int(is_stateful))
        for above in step.views.values():
            yield from _above(pipeline, above)
