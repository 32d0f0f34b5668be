"""Which sinks of a pipeline share a query: one read of the sources for all of them.  Pure.

Sinks share a query when only stateless steps are between them and one view of the stream.  The
query reads this view; the steps below it are applied to each batch, once for all sinks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from odradek.pipeline.spec.key_lines import Path
from odradek.pipeline.spec.model import REJECTS, PipelineSpec
from odradek.pipeline.spec.parse_step import Parse
from odradek.pipeline.spec.sinks import Restart, Sink, SparkSink
from odradek.pipeline.spec.steps import ByRow, Filter, Join, Map, Mask, Route, Sql, Udf

SHARED: Final = "_shared"
"""Suffix of the name of a query of several sinks, after the view that it begins with."""
_CLOCK: Final = re.compile(
    r"\b(now|current_timestamp|current_date|curdate|current_time|localtimestamp|unix_timestamp)\b",
    re.IGNORECASE,
)
"""Functions of the time of the batch; outside of the stream they are of the time of a write."""
_NOT_BY_ROW: Final = (
    exp.AggFunc,
    exp.Anonymous,
    exp.CTE,
    exp.Distinct,
    exp.Group,
    exp.Having,
    exp.Lateral,
    exp.Limit,
    exp.Offset,
    exp.Order,
    exp.Pivot,
    exp.SetOperation,
    exp.Subquery,
    exp.Window,
)


@dataclass(frozen=True, slots=True)
class SharedQuery:
    """A query of several sinks.

    view         whose batches it writes: the last one that all sinks depend on
    outputs      sinks, and STEP_rejects for the dead letters of a parse step, in writing order
    steps        those below the view, in the order of the file
    output_mode  of the query
    """

    name: str
    view: str
    outputs: tuple[str, ...]
    steps: tuple[str, ...]
    output_mode: str


def shared_queries(pipeline: PipelineSpec) -> list[SharedQuery]:
    """The queries of several sinks; sinks that are in none have queries of their own."""
    if pipeline.pipeline.queries != "shared" or pipeline.pipeline.mode == "batch":
        return []
    groups: dict[tuple[str, str], dict[str, list[str]]] = {}
    for name, base, sink in _outputs(pipeline):
        path = _path(pipeline, base)
        if pipeline.is_static(base) or (sink is not None and not _is_shareable(sink)):
            continue
        # Without state above, a batch has the same rows in all modes.
        mode = (
            getattr(sink, "output_mode", "append") if _has_state(pipeline, path[-1]) else "append"
        )
        groups.setdefault((path[-1], mode), {})[name] = path
    return [
        _query(pipeline, anchor, mode, paths)
        for (anchor, mode), paths in groups.items()
        if len(paths) > 1
    ]


def _outputs(pipeline: PipelineSpec) -> Iterator[tuple[str, str, Sink | None]]:
    """Yield the name of what is written, the view that it is made of, and the sink if it is one."""
    for name, step in pipeline.steps.items():
        if isinstance(step, Parse) and step.rejects is not None:
            yield name + REJECTS, step.source, None
    for name, sink in pipeline.sinks.items():
        yield name, sink.source, sink


def _query(
    pipeline: PipelineSpec, anchor: str, mode: str, paths: dict[str, list[str]]
) -> SharedQuery:
    first, *others = paths.values()
    view = next(candidate for candidate in first if all(candidate in path for path in others))
    used = {step for path in paths.values() for step in path[: path.index(view)]}
    used |= {pipeline.dead_letter_steps()[name] for name in paths if name not in pipeline.sinks}
    return SharedQuery(
        anchor + SHARED + ("" if mode == "append" else f"_{mode}"),
        view,
        tuple(paths),
        tuple(name for name in pipeline.steps if name in used),
        mode,
    )


def _path(pipeline: PipelineSpec, view: str) -> list[str]:
    """A view and those above it, up to the last one that does not depend on single rows alone."""
    path = [view]
    while (above := _input(pipeline, path[-1])) is not None:
        path.append(above)
    return path


def _input(pipeline: PipelineSpec, view: str) -> str | None:
    """The view whose rows a step takes one by one; None for sources and all other steps."""
    step = pipeline.steps.get(view)
    match step:
        case Filter() if step.model is not None:
            # A model is loaded once for a stream, and would be for each batch.
            return None
        case Map() | Filter() | Route():
            texts = [step.where] if isinstance(step, Filter) else _expressions(step)
            return None if any(_CLOCK.search(text or "") for text in texts) else step.source
        case Parse() | Mask() | Udf():
            return step.source
        case Join():
            return _input_of_join(pipeline, step)
        case Sql():
            return _input_of_sql(pipeline, view, step)
    return None


def _expressions(step: Map | Route) -> list[str]:
    return [*(step.columns if isinstance(step, Map) else step.rules).values()]


def _input_of_join(pipeline: PipelineSpec, step: Join) -> str | None:
    """The stream of a join with a table whose rows have no state: those of the table are found."""
    if step.watermark is not None or any(map(_CLOCK.search, [step.on, *step.columns.values()])):
        return None
    is_left, is_right = (not pipeline.is_static(side) for side in (step.source, step.right))
    if is_left and not is_right and step.how in ("inner", "left"):
        return step.source
    if is_right and not is_left and step.how in ("inner", "right"):
        return step.right
    return None


def _input_of_sql(pipeline: PipelineSpec, name: str, step: Sql) -> str | None:
    """The stream of a query that is known to take rows one by one."""
    if step.query is None or step.watermarks or _CLOCK.search(step.query):
        return None
    try:
        tree = sqlglot.parse_one(step.query, dialect="spark")
    except SqlglotError:
        return None
    if not isinstance(tree, exp.Select) or tree.find(*_NOT_BY_ROW) is not None:
        return None
    if any(
        join.side or join.kind not in ("", "INNER", "CROSS") for join in tree.find_all(exp.Join)
    ):
        return None
    steps = list(pipeline.steps)
    views = {view.lower(): view for view in (*pipeline.sources, *steps[: steps.index(name)])}
    read = [views.get(table.name.lower()) for table in tree.find_all(exp.Table)]
    streams = [stream for stream in read if stream is not None and not pipeline.is_static(stream)]
    return streams[0] if None not in read and len(streams) == 1 else None


def _has_state(pipeline: PipelineSpec, view: str) -> bool:
    """Whether the rows of a batch may depend on the output mode."""
    while view not in pipeline.sources:
        step = pipeline.steps[view]
        if not isinstance(step, ByRow):
            return True
        view = step.source
    return False


def _is_shareable(sink: Sink) -> bool:
    """Whether a sink keeps its guarantee when it is written as a batch."""
    return not isinstance(sink, SparkSink) or sink.foreach_batch or sink.format == "delta"


def restarts_of(pipeline: PipelineSpec) -> dict[str, Restart]:
    """Query -> when it is started again, shared queries included."""
    of_sinks = pipeline.restarts()
    shared = shared_queries(pipeline)
    return of_sinks | {
        other.name: of_sinks[other.outputs[-1]] for other in shared if other.outputs[-1] in of_sinks
    }


def sharing_faults(pipeline: PipelineSpec) -> Iterator[tuple[Path, str]]:
    """Yield the errors of shared queries: place and message."""
    for query in shared_queries(pipeline):
        sinks = [output for output in query.outputs if output in pipeline.sinks]
        for name in sinks[1:]:
            if pipeline.sinks[name].restart != pipeline.sinks[sinks[0]].restart:
                reason = f"sinks {sinks[0]} and {name} share a query, which has one policy"
                yield ("sinks", name, "restart"), f"{reason}; allowed: the same at all its sinks"
        for output in (*pipeline.sinks, *pipeline.dead_letter_steps()):
            if output == query.name:
                reason = f"the query of {' and '.join(query.outputs)} has this name already"
                yield ("sinks", output), reason


def said_of(query: SharedQuery) -> str:
    """One line about a shared query."""
    names = [
        f"dead letters of {output.removesuffix(REJECTS)}" if output.endswith(REJECTS) else output
        for output in query.outputs
    ]
    return f"query {query.name}: one read of {query.view} for {', '.join(names)}"
