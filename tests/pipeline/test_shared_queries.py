"""Which sinks share a query."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.problems import SpecError
from odradek.pipeline.spec.sharing import SharedQuery, restarts_of, shared_queries

HEAD = """\
[pipeline]
name = "shop"
checkpoint = "state"
queries = "shared"
[clusters.main]
bootstrap_servers = "localhost:1"
[sources.orders]
kind = "kafka"
cluster = "main"
subscribe = ["orders"]
[sources.names]
kind = "spark"
format = "json"
path = "names"
schema = "id INT, name STRING"
static = true
"""
STEPS = {
    "filter": 'where = "id > 1"',
    "map": 'columns = { id = "id + 1" }',
    "mask": 'columns = ["name"]\nhow = "hash"',
    "route": 'rules = { other = "id = 1" }',
    "udf": 'function = "scores:score"\ninputs = ["id"]\ncolumn = "score"\nreturns = "DOUBLE"',
    "parse": 'format = "json"\nschema = "id INT, name STRING"\n'
    'rejects = "rejected"\nrejects_cluster = "main"',
    "join": 'right = "names"\non = "l.id = r.id"\ncolumns = { id = "l.id" }',
    "window": 'time = "timestamp"\nlength = "1 minute"\nwatermark = "1 minute"\n'
    'aggregates = { id = "count(*)" }',
    "anomalies": 'method = "ewma"\ntime = "timestamp"\nvalue = "id"',
    "python": 'step = "scores:above"',
}
STATELESS = ("filter", "map", "mask", "route", "udf", "parse", "join")


def step_text(name: str, kind: str, above: str) -> str:
    return f'[steps.{name}]\nkind = "{kind}"\nfrom = "{above}"\n{STEPS[kind]}\n'


def sink_text(name: str, view: str, more: str = "") -> str:
    return f'[sinks.{name}]\nkind = "console"\nfrom = "{view}"\n{more}\n'


def shared(text: str) -> list[SharedQuery]:
    return shared_queries(parse(HEAD + text, Path("shop.toml")))


def test_sinks_and_dead_letters_share_the_view_that_all_depend_on() -> None:
    text = step_text("parsed", "parse", "orders") + step_text("kept", "filter", "parsed")
    text += sink_text("a", "parsed") + sink_text("b", "kept")
    outputs = ("parsed_rejects", "a", "b")
    expected = SharedQuery("orders_shared", "orders", outputs, ("parsed", "kept"), "append")
    assert shared(text) == [expected]
    without = text.replace('rejects = "rejected"\nrejects_cluster = "main"', "")
    assert shared(without) == [
        SharedQuery("orders_shared", "parsed", ("a", "b"), ("kept",), "append")
    ]
    assert shared_queries(parse(HEAD + text, Path("shop.toml"), mode="batch")) == []


@pytest.mark.parametrize(
    ("query", "is_shared"),
    [
        ("SELECT id FROM orders WHERE id > 1", True),
        ("SELECT o.id, n.name FROM orders o JOIN names n ON o.id = n.id", True),
        ("SELECT count(*) AS id FROM orders", False),
        ("SELECT id FROM orders GROUP BY id", False),
        ("SELECT DISTINCT id FROM orders", False),
        ("SELECT id, current_timestamp() AS at FROM orders", False),
        ("SELECT strange(id) AS id FROM orders", False),
        ("SELECT o.id FROM orders o JOIN orders n ON o.id = n.id", False),
        ("SELECT id FROM orders UNION ALL SELECT id FROM orders", False),
        ("SELECT n.id FROM names n LEFT JOIN orders o ON o.id = n.id", False),
        ("SELECT id FROM orders LIMIT 3", False),
    ],
)
def test_query_is_below_the_stream_only_if_it_takes_rows_one_by_one(
    query: str, is_shared: bool
) -> None:
    text = f'[steps.q]\nkind = "sql"\nquery = "{query}"\n'
    text += sink_text("a", "orders") + sink_text("b", "q")
    assert bool(shared(text)) is is_shared


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_join_that_keeps_rows_of_the_table_has_a_query_of_its_own(how: str) -> None:
    text = step_text("joined", "join", "orders") + f'how = "{how}"\n'
    text += sink_text("a", "orders") + sink_text("b", "joined")
    assert bool(shared(text)) is (how in ("inner", "left"))


def test_window_with_sinks_of_two_output_modes_has_a_query_for_each() -> None:
    text = step_text("counted", "window", "orders")
    for name, mode in (("a", "append"), ("b", "update"), ("c", "append"), ("d", "update")):
        text += sink_text(name, "counted", f'output_mode = "{mode}"')
    assert [(query.name, query.outputs, query.output_mode) for query in shared(text)] == [
        ("counted_shared", ("a", "c"), "append"),
        ("counted_shared_update", ("b", "d"), "update"),
    ]


def test_connector_that_writes_streams_only_has_a_query_of_its_own() -> None:
    text = sink_text("a", "orders") + sink_text("b", "orders")
    lake = '[sinks.c]\nkind = "spark"\nfrom = "orders"\nformat = "{}"\npath = "lake"\n'
    (own,) = shared(text + lake.format("iceberg"))
    assert own.outputs == ("a", "b")
    (delta,) = shared(text + lake.format("delta"))
    assert delta.outputs == ("a", "b", "c")


def test_restart_of_a_shared_query_is_that_of_its_sinks() -> None:
    restart = "restart = { attempts_max = 3 }"
    text = sink_text("a", "orders", restart) + sink_text("b", "orders")
    with pytest.raises(SpecError, match=r"sinks.b.restart: sinks a and b share a query, which has"):
        shared(text)
    both = sink_text("a", "orders", restart) + sink_text("b", "orders", restart)
    policies = restarts_of(parse(HEAD + both, Path("shop.toml")))
    assert policies["orders_shared"].attempts_max == 3


@st.composite
def files(draw: st.DrawFn) -> tuple[str, dict[str, tuple[str, str]], dict[str, str]]:
    """A file, its steps (kind and view above), and its sinks (view)."""
    steps: dict[str, tuple[str, str]] = {}
    kinds = st.sampled_from([*STATELESS, "anomalies", "python"])
    for number in range(draw(st.integers(0, 6))):
        above = draw(st.sampled_from(["orders", *steps]))
        steps[f"s{number}"] = (draw(kinds), above)
    views = st.sampled_from(["orders", *steps])
    sinks = {f"k{number}": draw(views) for number in range(draw(st.integers(1, 5)))}
    text = "".join(step_text(name, *step) for name, step in steps.items())
    text += "".join(sink_text(name, view) for name, view in sinks.items())
    return text, steps, sinks


@given(files())
def test_every_graph_is_divided_at_its_stateful_steps(
    file: tuple[str, dict[str, tuple[str, str]], dict[str, str]],
) -> None:
    text, steps, sinks = file

    def above(view: str) -> list[str]:
        chain = [view]
        while chain[-1] in steps and steps[chain[-1]][0] in STATELESS:
            chain.append(steps[chain[-1]][1])
        return chain

    queries = shared(text)
    outputs = {name: above(view) for name, view in sinks.items()}
    outputs |= {
        f"{name}_rejects": above(view) for name, (kind, view) in steps.items() if kind == "parse"
    }
    grouped = [name for query in queries for name in query.outputs]
    assert len(grouped) == len(set(grouped))
    for name, path in outputs.items():
        same = {other for other, path_of in outputs.items() if path_of[-1] == path[-1]}
        mine = [query for query in queries if name in query.outputs]
        assert {output for query in mine for output in query.outputs} == (
            same if len(same) > 1 else set()
        )
        for query in mine:
            below = path[: path.index(query.view)]
            assert set(below) <= set(query.steps)
            assert all(steps[step][0] in STATELESS for step in query.steps)
            assert list(query.steps) == [step for step in steps if step in query.steps]
