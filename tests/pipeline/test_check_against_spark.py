"""What `odradek pipeline check` infers without Spark, compared with Spark."""

from __future__ import annotations

import re
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from odradek.pipeline.check.columns import Columns, kind_of, type_named
from odradek.pipeline.check.queries import check_expression, check_query
from odradek.pipeline.check.steps import NUMBERS

EXAMPLE: Final = re.compile(r"> (SELECT .*?);\n", re.DOTALL)
EVERY: Final = 5
"""Types are compared for each fifth query: Spark needs some 50 ms for a query."""


def examples(spark: SparkSession) -> list[str]:
    """The queries in the descriptions of Spark's functions."""
    session: Any = spark._jsparkSession
    registry = session.sessionState().functionRegistry()
    names = registry.listFunction().iterator()
    queries: set[str] = set()
    while names.hasNext():
        function = registry.lookupFunction(names.next())
        if function.isDefined():
            queries |= set(EXAMPLE.findall(function.get().getExamples()))
    return sorted(queries)


def test_queries_of_sparks_own_documentation_have_no_mistakes(spark: SparkSession) -> None:
    queries = examples(spark)
    assert len(queries) > 800
    wrong = {}
    unparsed = 0
    for query in queries:
        mistakes = check_query(query, {}, has_others=False)[1]
        unparsed += any(is_warning for _, is_warning in mistakes)
        if not all(is_warning for _, is_warning in mistakes):
            wrong[query] = mistakes
    assert wrong == {}
    assert unparsed < len(queries) / 20


def test_kinds_of_types_are_those_of_spark(spark: SparkSession) -> None:
    compared = 0
    wrong = {}
    for query in examples(spark)[::EVERY]:
        if " FROM " in query:
            continue
        expression = query.removeprefix("SELECT ")
        kind, mistakes = check_expression(expression, {"rows": Columns()})
        if mistakes or kind is None:
            continue
        try:
            (field,) = spark.sql(query).schema.fields
        except (PySparkException, Py4JJavaError):
            # An example of an error, or of a connector that is not there.
            continue
        compared += 1
        theirs = type_named(field.dataType.simpleString().upper())
        kinds = {"number" if kind_of(of) in NUMBERS else kind_of(of) for of in (kind, theirs)}
        if len(kinds - {None}) > 1:
            wrong[query] = kinds
    assert wrong == {}
    assert compared > 40
