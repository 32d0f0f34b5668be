"""The origins of event times, and the stateful steps of a query."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from odradek.pipeline.spec.model import REJECTS, PipelineSpec
from odradek.pipeline.spec.parse_step import Parse
from odradek.pipeline.spec.row_schema import columns_of
from odradek.pipeline.spec.sharing import shared_queries
from odradek.pipeline.spec.steps import (
    Anomalies,
    AnyStep,
    Correlate,
    Deduplicate,
    Filter,
    Join,
    Map,
    Mask,
    Python,
    Route,
    Sql,
    TopKeys,
    Udf,
    Window,
)


def event_times(pipeline: PipelineSpec) -> dict[str, list[str]]:
    """Parse step -> its columns that a later step uses for a watermark.

    A column is followed through steps that keep or rename it; not through queries, joins and
    expressions.
    """
    times: dict[str, list[str]] = {}
    for view, column in _watermarked(pipeline):
        origin = _origin(pipeline.steps, view, column)
        if origin is not None:
            name, time = origin
            columns = times.setdefault(name, [])
            if time not in columns:
                columns.append(time)
    return times


def _watermarked(pipeline: PipelineSpec) -> Iterator[tuple[str, str]]:
    """Yield view and column of each watermark."""
    for step in pipeline.steps.values():
        match step:
            case Sql():
                for view, columns in step.watermarks.items():
                    yield from ((view, column) for column in columns)
            case Join():
                if step.left_time is not None:
                    yield step.source, step.left_time
                if step.right_time is not None:
                    yield step.right, step.right_time
            case Window() | Deduplicate() | Correlate() | TopKeys():
                if step.watermark is not None:
                    yield step.source, step.time


def _origin(steps: Mapping[str, AnyStep], view: str, column: str) -> tuple[str, str] | None:
    """The parse step that a column of a view comes from, and its name there; or None."""
    while (step := steps.get(view)) is not None:
        if isinstance(step, Parse):
            if not step.is_text or step.row_schema is None:
                return view, column
            top = column.partition(".")[0].lower()
            if any(
                parsed.lower() in (top, column.lower()) for parsed in columns_of(step.row_schema)
            ):
                return view, column
        elif isinstance(step, Map):
            expressions = {name.lower(): text for name, text in step.columns.items()}
            text = expressions.get(column.lower(), None if step.only else column)
            # Any other expression computes a new time.
            if text is None or re.fullmatch(r"[\w.]+", text.strip()) is None:
                return None
            column = text.strip()
        elif isinstance(step, Mask | Udf):
            changed = step.columns if isinstance(step, Mask) else [step.column]
            if column.lower() in (name.lower() for name in changed):
                return None
        elif not isinstance(step, Filter | Route | Deduplicate | Anomalies):
            return None
        view = step.source
    return None


def stateful_steps(pipeline: PipelineSpec, query: str) -> list[str]:
    """The step of each stateful operator of a query, in Spark's order: the last of the plan first.

    A SQL or Python step ends the list, since its operators are unknown.
    """
    for shared in shared_queries(pipeline):
        if shared.name == query:
            return list(_above(pipeline, shared.view))
    sink = pipeline.sinks.get(query)
    return list(_above(pipeline, sink.source if sink else query.removesuffix(REJECTS)))


def _above(pipeline: PipelineSpec, view: str) -> Iterator[str]:
    step = pipeline.steps.get(view)
    if step is None:
        return
    if isinstance(step, Sql | Python):
        yield view
        return
    if isinstance(step, Join):
        if not (_is_table(pipeline, step.source) or _is_table(pipeline, step.right)):
            yield view
        yield from _above(pipeline, step.source)
        yield from _above(pipeline, step.right)
        return
    if isinstance(step, TopKeys):
        # Two operators: one counts, the other ranks the counts.
        yield from (view, view)
    elif isinstance(step, Window | Deduplicate | Correlate | Anomalies):
        yield view
    yield from _above(pipeline, step.source)


def _is_table(pipeline: PipelineSpec, view: str) -> bool:
    """Whether a view depends on tables only, and so is not a stream."""
    above = pipeline.sources_of(view)
    return all(pipeline.sources[name].is_static for name in above)
