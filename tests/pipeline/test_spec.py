"""Pipeline files and the reports of their errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.pipeline.spec.key_lines import lines_of
from odradek.pipeline.spec.load import load, parse
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.problems import SpecError
from odradek.pipeline.spec.sinks import KafkaSink
from odradek.pipeline.spec.sources import KafkaSource
from odradek.pipeline.spec.steps import Window
from tests.pipeline.pipeline_files import GOOD, problems


def test_valid_file_is_parsed_into_its_model(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text(GOOD)
    pipeline = load(path)
    assert isinstance(pipeline, PipelineSpec)
    source = pipeline.sources["payments"]
    assert isinstance(source, KafkaSource)
    assert source.starting_offsets == {"payments": {"0": 5, "1": -2}}
    step = pipeline.steps["windows"]
    assert isinstance(step, Window)
    assert step.aggregates == {"n": "count(*)", "total": "sum(amount)"}
    sink = pipeline.sinks["out"]
    assert isinstance(sink, KafkaSink)
    assert (sink.source, sink.topic, sink.output_mode) == ("windows", "per-merchant", "append")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'trigger = "2',
            'triger = "2',
            "line 4: pipeline.triger: an unknown key;"
            " allowed: name, mode, checkpoint, trigger,"
            " ahead_max, queries, spark, restart",
        ),
        (
            'kind = "window"',
            'kind = "windoe"',
            "line 24: steps.windows.kind: 'windoe' is not allowed; allowed: 'parse', 'filter',"
            " 'map', 'mask', 'route', 'deduplicate', 'window', 'join', 'correlate', 'top_keys',"
            " 'anomalies', 'udf', 'python', 'sql'",
        ),
        (
            'format = "json"',
            'format = "xml"',
            "line 18: steps.parsed.format: \"xml\" is not allowed: Input should be 'json', 'csv',"
            " 'avro' or 'protobuf'",
        ),
        (
            'bootstrap_servers = "127.0.0.1:9092"',
            "bootstrap_servers = 9092",
            "line 7: clusters.main.bootstrap_servers: 9092 is not allowed: Input should be a valid"
            " string",
        ),
        (
            'cluster = "main"\nsubscribe',
            'cluster = "mane"\nsubscribe',
            "line 11: sources.payments.cluster: 'mane' is not a cluster; there are: main",
        ),
        (
            'from = "windows"',
            'from = "window"',
            "line 34: sinks.out.from: 'window' is not a source or step; there are: payments,"
            " parsed, windows",
        ),
        ('time = "at"\n', "", "line 23: steps.windows.time: must be given"),
        (
            'subscribe = ["payments"]',
            'subscribe = ["payments"]\npattern = "p.*"',
            "line 9: sources.payments: one of subscribe, pattern and assign must be given",
        ),
        (
            'checkpoint = "state"\n',
            "",
            "line 1: pipeline: mode stream needs a checkpoint folder: checkpoint = ...",
        ),
        (
            'length = "10 seconds"',
            'length = "10 seconds"\ngap = "1 second"',
            "line 23: steps.windows: one of length (tumbling, sliding) and gap (session) must be"
            " given",
        ),
        (
            'rejects_cluster = "main"\n',
            "",
            "line 15: steps.parsed: rejects and rejects_cluster belong together",
        ),
    ],
)
def test_error_has_line_key_value_and_allowed_values(old: str, new: str, message: str) -> None:
    assert GOOD.count(old) == 1
    assert problems(GOOD.replace(old, new)) == [message]


def test_all_errors_are_reported_sorted_by_line() -> None:
    text = GOOD.replace('"json"', '"xml"').replace("trigger", "triger")
    text = text.replace('"10 seconds"', '"10 fortnights"')
    assert [problem.split(":")[0] for problem in problems(text)] == ["line 4", "line 18", "line 28"]


def test_invalid_toml_and_invalid_utf_8_are_errors(tmp_path: Path) -> None:
    (message,) = problems("[pipeline\nname=")
    assert "not TOML" in message
    assert "line 1" in message
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="not UTF-8"):
        load(path)


def test_every_key_has_a_line() -> None:
    text = """\
# a comment
top = 1
a.b = { c = [
  1,
  { d = 2 } ] }

["quoted key".'x']
e = \"\"\"
many
lines\"\"\"
[[list]]
f = 1
[[list]]
g = 2
[list.inner]
h = 3
"""
    lines = lines_of(text)
    assert lines["top",] == 2
    assert lines["a", "b"] == lines["a", "b", "c"] == 3
    assert lines["a", "b", "c", 0] == 4
    assert lines["a", "b", "c", 1, "d"] == 5
    assert lines["quoted key", "x"] == 7
    assert lines["quoted key", "x", "e"] == 8
    assert lines["list", 0] == 11
    assert lines["list", 0, "f"] == 12
    assert lines["list", 1, "g"] == 14
    assert lines["list", 1, "inner", "h"] == 16


def test_part_for_a_sink_with_the_name_of_its_step_has_the_step() -> None:
    whole = parse(GOOD.replace("[sinks.out]", "[sinks.windows]"), Path("my.toml"))
    part = whole.only_for(["windows"])
    assert list(part.sources) == ["payments"]
    assert list(part.steps) == ["parsed", "windows"]
    assert list(part.sinks) == ["windows"]
    assert list(whole.only_for(["parsed"]).steps) == ["parsed"]
