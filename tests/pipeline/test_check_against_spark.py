"""What `check` knows of Spark, compared with Spark and Java themselves."""

from __future__ import annotations

import random
import re
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from odradek.pipeline.check.expressions import Checker
from odradek.pipeline.check.facts import functions, settings
from odradek.pipeline.check.java_patterns import pattern_fault
from odradek.pipeline.check.queries import check_query

EXAMPLE: Final = re.compile(r"> (SELECT .*?);\n", re.DOTALL)
PARTS: Final = (
    *("a", "z", "0", "-", "^", "$", "|", "(", ")", "[", "]", "{", "}", "*", "+", "?", "\\", "&&"),
    *(
        "(?:",
        "(?=",
        "(?<=",
        "(?<n>",
        "\\k<n>",
        "\\d",
        "\\p{L}",
        "\\pL",
        "\\Q",
        "\\E",
        "{2}",
        "{2,1}",
    ),
    *(
        "[^",
        "[a-z]",
        "\\x41",
        "\\u0041",
        "\\01",
        "\\cA",
        "\\b",
        "\\y",
        "\\1",
        "(?i)",
        "(?-i:",
        "(?P<",
    ),
)
PATTERNS: Final = 400
MISSED_MAX: Final = 4


def examples(spark: SparkSession) -> list[str]:
    """The queries in the descriptions of Spark's functions."""
    session: Any = spark._jsparkSession
    registry = session.sessionState().functionRegistry()
    names = registry.listFunction().iterator()
    texts = []
    while names.hasNext():
        found = registry.lookupFunction(names.next())
        if found.isDefined():
            texts.append(found.get().getExamples())
    found = {one for text in texts for one in EXAMPLE.findall(text)}
    # These are for escapedStringLiterals = true.
    return sorted(one for one in found if "SystemDrive" not in one)


def test_queries_of_sparks_own_documentation_have_no_mistakes(spark: SparkSession) -> None:
    wrong = []
    warned = 0
    queries = examples(spark)
    assert len(queries) > 800
    for query in queries:
        for said, is_warning in check_query(query, {}, has_others=False)[1]:
            warned += is_warning
            if not is_warning:
                wrong.append((query, said))
    assert wrong == []
    assert warned < len(queries) / 10


def test_types_are_those_of_spark(spark: SparkSession) -> None:
    known = 0
    for query in examples(spark)[::5]:
        checker = Checker({})
        columns = check_query(query, {}, has_others=False)[0]
        types = [kind for kind in columns.types.values() if kind is not None]
        if len(columns.types) != 1 or not types or checker.said:
            continue
        ours = types[0].sql(dialect="spark").replace(" ", "")
        try:
            field = spark.sql(query).schema.fields[0]
        except (PySparkException, Py4JJavaError):
            # An example of an error, or of a connector that is not there.
            continue
        theirs = field.dataType.simpleString().upper().replace(" ", "")
        assert ours == theirs, query
        known += 1
    assert known > 40


def test_every_function_and_setting_of_spark_is_known(spark: SparkSession) -> None:
    names = {row[0] for row in spark.sql("SHOW FUNCTIONS").collect()}
    assert {one for one in names if re.fullmatch(r"\w+", one)} <= set(functions())
    assert {row[0] for row in spark.sql("SET -v").select("key").collect()} <= set(settings())


def test_faults_of_patterns_are_those_of_java(spark: SparkSession) -> None:
    chosen = random.Random(20261123)
    jvm: Any = spark._jvm
    missed = []
    for _ in range(PATTERNS):
        pattern = "".join(chosen.choice(PARTS) for _ in range(chosen.randint(1, 9)))
        try:
            jvm.java.util.regex.Pattern.compile(pattern)
        except (PySparkException, Py4JJavaError):
            if pattern_fault(pattern) is None:
                missed.append(pattern)
        else:
            assert pattern_fault(pattern) is None, pattern
    assert len(missed) <= MISSED_MAX, missed
