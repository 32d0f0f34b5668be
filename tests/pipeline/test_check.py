"""What `odradek pipeline check` finds without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from odradek.pipeline.check.spark_settings import check_settings
from odradek.pipeline.check.steps import analyse
from odradek.pipeline.cli import BAD_FILE, main
from odradek.pipeline.spec.load import load, parse
from tests.support.tool_cache import PROJECT

FILES = (
    *sorted((PROJECT / "config/pipelines").glob("*.toml")),
    *sorted((PROJECT / "examples/pipeline").glob("*.toml")),
    *sorted((PROJECT / "tests/pipeline/samples").glob("*.toml")),
)
CHECK_CPU_MAX_S = 1.0
HEAD = """\
[pipeline]
name = "shop"
checkpoint = "state"

[clusters.main]
bootstrap_servers = "127.0.0.1:9092"

[sources.orders]
kind = "kafka"
cluster = "main"
subscribe = ["orders"]

[sources.shops]
kind = "jdbc"
url = "jdbc:sqlite:shops.db"
table = "shops"

[steps.parsed]
kind = "parse"
from = "orders"
format = "json"
schema = \"\"\"
id BIGINT NOT NULL, amount DOUBLE, customer STRING, at TIMESTAMP, tags ARRAY<STRING>,
address STRUCT<town: STRING, zip: INT>, places MAP<STRING, INT>
\"\"\"

"""
SINK = """
[sinks.out]
kind = "console"
from = "parsed"
"""
MAP = 'kind = "map"\nfrom = "parsed"\ncolumns = {{ x = {} }}'
WINDOW = """\
kind = "window"
from = "parsed"
time = "{time}"
watermark = "1 minute"
length = "1 minute"
group_by = ["{group}"]
aggregates = {{ n = "{aggregate}" }}"""


def findings_of(step: str, *, more: str = SINK) -> list[str]:
    """The mistakes and warnings that a step has."""
    text = f"{HEAD}[steps.tried]\n{step}\n{more}"
    analysis = analyse(parse(text, Path("my.toml")), Path())
    return [
        ("WARN " if finding.is_warning else "")
        + ".".join(map(str, finding.where))
        + ": "
        + finding.text
        for finding in analysis.findings
    ]


def of_expression(text: str) -> list[str]:
    """The mistakes in an expression."""
    quoted = f"'''{text}'''"
    return [
        finding.removeprefix("steps.tried.columns.x: ")
        for finding in findings_of(MAP.format(quoted))
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_of_this_project_have_no_mistakes_and_no_warnings(path: Path) -> None:
    assert analyse(load(path), path.parent).findings == []


def test_pipeline_of_the_demo_has_no_mistakes() -> None:
    path = PROJECT / "odradek/demo/pipeline/payments.toml"
    text = path.read_text().replace("ADDRESS", "127.0.0.1:9092")
    assert analyse(parse(text, path), path.parent).findings == []


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("amont * 2", "there is no column 'amont'; did you mean amount? there are: id, amount, "),
        ("address.twon", "address has no field 'twon'; did you mean town? there are: town, zip"),
        ("customer.name", "customer is STRING and has no field 'name'"),
        ("count(", "not understood as SQL: "),
        ("upper(customer) + nothing", "there is no column 'nothing'; there are: id, amount, "),
        ("transform(tags, t -> concat(t, custmer))", "there is no column 'custmer'; did you mean"),
    ],
)
def test_mistakes_in_expressions_are_found(expression: str, message: str) -> None:
    (finding,) = of_expression(expression)
    assert finding.startswith(message)


@pytest.mark.parametrize(
    "expression",
    [
        "ID + Amount",
        "address.ZIP + places.home + places['home']",
        "transform(tags, t -> concat(t, customer))",
        "filter(tags, (t, i) -> i > 0)[0]",
        "aggregate(tags, '', (a, t) -> concat(a, t))",
        r"split(customer, r'\s+')",
        "CASE WHEN amount > 1 THEN 'a' WHEN customer IS NULL THEN 'b' END",
        "named_struct('a', id, 'b', at).b - INTERVAL 1 DAY",
        "amount BETWEEN 1 AND 2 OR customer IN ('a', 'b') OR NOT (id = 1)",
        "CAST(at AS DATE) = current_date",
        "date_trunc('hour', at) > TIMESTAMP '2026-01-01 00:00:00'",
        "extract(HOUR FROM at) + id % 2 + -id",
        "row_number() OVER (PARTITION BY customer ORDER BY at)",
        "try_cast(customer AS INT) <=> id",
        "catalog.functions.mine(id)",
        "EXISTS(tags, t -> t LIKE 'a%')",
        "id::STRING || customer",
    ],
)
def test_valid_expressions_have_no_mistakes(expression: str) -> None:
    assert of_expression(expression) == []


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ('kind = "filter"\nfrom = "parsed"\nwhere = "customer"', "where: is STRING, and a condi"),
        ('kind = "filter"\nfrom = "parsed"\nmatches = { custmer = "c" }', "matches.custmer: there"),
        ('kind = "filter"\nfrom = "parsed"\nequals = { customer = 5 }', "equals.customer: custom"),
        ('kind = "mask"\nfrom = "parsed"\ncolumns = ["card"]\nhow = "hash"', "columns.0: there is"),
        (
            'kind = "route"\nfrom = "parsed"\nrules = { a = "amont > 1" }',
            "rules.a: there is no col",
        ),
        (
            'kind = "deduplicate"\nfrom = "parsed"\nkeys = ["idd"]\ntime = "at"\nwatermark = "1s"',
            "keys",
        ),
        (WINDOW.format(time="id", group="customer", aggregate="count(*)"), "time: id is BIGINT; "),
        (WINDOW.format(time="at", group="shop", aggregate="count(*)"), "group_by.0: there is no "),
        (WINDOW.format(time="at", group="id", aggregate="max(aat)"), "aggregates.n: there is no c"),
        (
            'kind = "anomalies"\nfrom = "parsed"\nmethod = "ewma"\ntime = "at"\nvalue = "customer"',
            "value: customer is STRING; allowed: INT or DOUBLE or DECIMAL",
        ),
        (
            'kind = "top_keys"\nfrom = "parsed"\ntime = "at"\nwatermark = "1s"\nlength = "1s"\n'
            'column = "custmer"\nk = 3',
            "column: there is no column 'custmer'; did you mean customer?",
        ),
        (
            'kind = "join"\nfrom = "parsed"\nright = "orders"\non = "l.id = r.ofset"\n'
            'columns = { a = "l.id" }',
            "on: there is no column 'ofset'; did you mean offset?",
        ),
        (
            'kind = "sql"\nquery = "SELECT custmer FROM parsed"',
            "query: there is no column 'custmer'",
        ),
        (
            'kind = "sql"\nquery = "SELECT address.twon FROM parsed"',
            "query: address has no field 'twon'; did you mean town?",
        ),
        (
            'kind = "sql"\nquery = "SELECT id FROM parsed JOIN orders ON id = ofset"',
            "query: there is no column 'ofset'; did you mean offset?",
        ),
        (
            'kind = "sql"\nquery = "SELECT id FROM parsd"',
            "query: there is no view 'parsd'; did you",
        ),
        ('kind = "sql"\nfile = "no.sql"', "file: no.sql: No such file or directory"),
        (
            'kind = "parse"\nfrom = "orders"\nformat = "json"\nschema = "a INT"\nkeep = ["kye"]',
            "keep.0: there is no column 'kye'",
        ),
    ],
)
def test_mistakes_in_steps_are_found(step: str, message: str) -> None:
    (finding,) = findings_of(step)
    assert finding.startswith(f"steps.tried.{message}")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT customer AS c, count(*) AS n FROM parsed GROUP BY c, window(at, '1 minute')",
        "WITH timed AS (SELECT *, window(at, '1 minute') AS window FROM parsed)"
        " SELECT window.start, sum(amount) s FROM timed GROUP BY window HAVING s > 1 ORDER BY s",
        "WITH big AS (SELECT id, amount AS a FROM parsed) SELECT id, a FROM big WHERE a > 1",
        "SELECT p.id, s.town FROM parsed p LEFT JOIN shops s ON p.customer = s.owner",
        "SELECT id, tag FROM parsed LATERAL VIEW explode(tags) t AS tag",
        "SELECT id, explode(tags) FROM parsed",
        "SELECT * FROM (SELECT id, upper(customer) AS u FROM parsed) WHERE u = 'A'",
        "SELECT * EXCEPT (id) FROM parsed UNION ALL SELECT * EXCEPT (id) FROM parsed",
        "SELECT id FROM parsed WHERE EXISTS (SELECT 1 FROM shops WHERE owner = customer)",
        "SELECT x, x + 1 AS y, y + 1 AS z FROM (SELECT id AS x FROM parsed)",
        "SELECT id FROM parquet.`/data/old`",
        "SELECT id FROM lake.sales.orders",
        "SELECT a FROM VALUES (1), (2) AS t(a)",
        "FROM parsed |> WHERE amount > 1 |> SELECT id",
    ],
)
def test_valid_queries_have_no_mistakes(query: str) -> None:
    step = f'kind = "sql"\nquery = """{query}"""'
    assert [finding for finding in findings_of(step) if not finding.startswith("WARN")] == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT count(*) AS c FROM parsed GROUP BY window(at, '1 minute')", None),
        (
            "SELECT count(*) AS c FROM parsed GROUP BY WINDOW (at, '1 minute'), id HAVING c > 1",
            None,
        ),
        ("SELECT count(*) AS c FROM parsed GROUP BY ALL", None),
        (
            "SELECT window(at, '1 minute') AS w, max(id) FROM parsed GROUP BY w ORDER BY w.start",
            None,
        ),
        ("SELECT sum(id) OVER w AS s FROM parsed WINDOW w AS (PARTITION BY customer)", None),
        ("SELECT count(*) AS c FROM parsed GROUP BY window(att, '1 minute')", "no column 'att'"),
        ("SELECT count(cust) AS c FROM parsed GROUP BY window(at, '1 minute')", "no column 'cust'"),
    ],
)
def test_queries_that_group_by_a_window_are_checked(query: str, message: str | None) -> None:
    findings = findings_of(f'kind = "sql"\nquery = """{query}"""')
    assert len(findings) == (message is not None), findings
    assert message is None or message in findings[0]


def test_columns_of_a_table_of_a_database_are_unknown_and_no_mistakes() -> None:
    assert (
        findings_of('kind = "map"\nfrom = "shops"\ncolumns = { x = "upper(owner) || town.name" }')
        == []
    )
    types = "SELECT id, owner AS o FROM parsed JOIN shops ON owner = customer"
    more = f'[steps.next]\nkind = "filter"\nfrom = "tried"\nwhere = "oo = 1"\n{SINK}'
    (finding,) = findings_of(f'kind = "sql"\nquery = "{types}"', more=more)
    assert finding == "steps.next.where: there is no column 'oo'; there are: id, o"


def test_columns_of_python_functions_are_followed_and_those_of_python_steps_unknown() -> None:
    udf = 'kind = "udf"\nfrom = "parsed"\nfunction = "m:f"\ninputs = ["{}"]\ncolumn = "near"\n'
    more = f'[steps.next]\nkind = "filter"\nfrom = "tried"\nwhere = "near"\n{SINK}'
    (finding,) = findings_of(udf.format("id") + 'returns = "DOUBLE"', more=more)
    assert finding == "steps.next.where: is DOUBLE, and a condition is BOOLEAN"
    (finding,) = findings_of(udf.format("idd") + 'returns = "BOOLEAN"', more=more)
    assert finding.startswith("steps.tried.inputs.0: there is no column 'idd'")
    assert findings_of('kind = "python"\nfrom = "parsed"\nstep = "m:f"', more=more) == []


def findings_of_settings(*names: str) -> dict[str, str]:
    """Setting -> what is found without Spark."""
    lines = "".join(f'"{name}" = 1\n' for name in names)
    text = HEAD.replace("\n[clusters", f"\n[pipeline.spark]\n{lines}\n[clusters", 1) + SINK
    findings = analyse(parse(text, Path("my.toml")), Path()).findings
    return {str(finding.where[-1]): finding.text for finding in findings}


def test_settings_without_the_prefix_of_spark_are_found() -> None:
    assert findings_of_settings(
        "sql.shuffle.partitions", "spark.sql.shuffle.partitions", "fs.s3a.endpoint"
    ) == {"sql.shuffle.partitions": "did you mean spark.sql.shuffle.partitions?"}


def test_settings_are_compared_with_those_of_spark() -> None:
    settings_of_spark = (
        "spark.executor.memory",
        "spark.sql.shuffle.partitions",
        "spark.eventLog.enabled",
    )
    settings = {
        "spark.sql.shufle.partitions": "did you mean spark.sql.shuffle.partitions?",
        "spark.executer.memory": "did you mean spark.executor.memory?",
        "spark.sql.of.an.extension": "Spark does not name this setting",
        "spark.sql.shuffle.partitions": None,
        "spark.hadoop.fs.s3a.endpoint": None,
        "spark.executorEnv.STAGE": None,
        "spark.of.another": None,
        "fs.s3a.endpoint": None,
    }
    findings = {
        finding.where[-1]: finding for finding in check_settings(settings, settings_of_spark)
    }
    for name, expected in settings.items():
        assert (name in findings) == (expected is not None)
        if expected is not None:
            assert findings[name].text.endswith(expected)
            assert findings[name].is_warning


def test_tables_of_extensions_are_not_mistakes() -> None:
    query = 'kind = "sql"\nquery = "SELECT id FROM mine"'
    text = f"{HEAD}[steps.tried]\n{query}\n{SINK}"
    assert len(analyse(parse(text, Path("my.toml")), Path()).findings) == 1
    spark = '\n[pipeline.spark]\n"spark.sql.extensions" = "org.example.Mine"\n\n[clusters'
    extended = text.replace("\n[clusters", spark, 1)
    assert analyse(parse(extended, Path("my.toml")), Path()).findings == []


def test_command_prints_a_line_for_each_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my.toml"
    path.write_text(HEAD + "[steps.tried]\n" + MAP.format("'''concat(cust, amont)'''") + SINK)
    assert main(["check", str(path)]) == BAD_FILE
    lines = capsys.readouterr().err.splitlines()
    line = path.read_text().splitlines().index("[steps.tried]") + 4
    assert [line.partition("; ")[0] for line in lines] == [
        f"{path}: line {line}: steps.tried.columns.x: there is no column 'cust'",
        f"{path}: line {line}: steps.tried.columns.x: there is no column 'amont'",
    ]
    path.write_text(HEAD + SINK)
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: 2 sources, 1 step, 1 sink\n"


def test_check_needs_less_than_a_second_of_processor_time_and_no_spark(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from odradek.command import main\n"
        f"status = main(['pipeline', 'check', {str(FILES[0])!r}])\n"
        "assert 'pyspark' not in sys.modules\n"
        "print(time.process_time())\n"
        "sys.exit(status)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT
    )
    assert float(done.stdout.split()[-1]) < CHECK_CPU_MAX_S
