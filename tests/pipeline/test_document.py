"""Variables, secret files, includes and settings of the command line in pipeline files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.pipeline.cli import BAD_FILE, main
from odradek.pipeline.spec.document import SECRET_BYTES_MAX, Outside
from odradek.pipeline.spec.hiding import Hidden, hiding
from odradek.pipeline.spec.load import load
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.problems import SpecError
from odradek.pipeline.spec.sinks import ConsoleSink, KafkaSink
from tests.pipeline.pipeline_files import GOOD

PASSWORD = 'correct\'horse "battery" 漢字'


def read(
    path: Path, text: str, environment: dict[str, str] | None = None, *settings: str
) -> PipelineSpec:
    """Write a file and load it."""
    path.write_text(text)
    return load(path, outside=Outside(environment or {}, settings))


def errors(path: Path, text: str, environment: dict[str, str] | None = None, *settings: str) -> str:
    """What is printed of a file with errors."""
    with pytest.raises(SpecError) as caught:
        read(path, text, environment, *settings)
    return str(caught.value)


def sink(pipeline: PipelineSpec) -> KafkaSink:
    """The sink of GOOD."""
    part = pipeline.sinks["out"]
    assert isinstance(part, KafkaSink)
    return part


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "my.toml"


@pytest.mark.parametrize(
    ("written", "environment", "topic"),
    [
        ("${STAGE}-orders", {"STAGE": "live"}, "live-orders"),
        ("${STAGE:-test}-orders", {}, "test-orders"),
        ("${STAGE:-test}-orders", {"STAGE": ""}, "test-orders"),
        ("${STAGE:-test}-orders", {"STAGE": "live"}, "live-orders"),
        ("a${X:-}b", {}, "ab"),
        ("${A}${B}", {"A": "${B}", "B": "b"}, None),
        ("$STAGE", {"STAGE": "live"}, None),
    ],
)
def test_variables_in_a_text_are_replaced_once(
    path: Path, written: str, environment: dict[str, str], topic: str | None
) -> None:
    text = GOOD.replace('"per-merchant"', f'"{written}"')
    if topic is None:
        # Not a name of a topic: a value is not searched for variables, nor is $NAME one.
        assert "sinks.out.topic" in errors(path, text, environment)
    else:
        assert sink(read(path, text, environment)).topic == topic


def test_text_of_a_variable_can_be_written_itself(path: Path) -> None:
    text = GOOD.replace('"count(*)"', "\"max('$${x} $$ ${N}')\"")
    window = read(path, text, {"N": "n"}).steps["windows"]
    assert window.aggregates["n"] == "max('${x} $$ n')"  # type: ignore[union-attr]


def test_numbers_and_truth_values_may_be_variables(path: Path) -> None:
    text = GOOD.replace(
        "subscribe", 'headers = "${H}"\nmax_offsets_per_trigger = "${M:-5}"\nsubscribe'
    )
    source = read(path, text, {"H": "true"}).sources["payments"]
    assert (source.headers, source.max_offsets_per_trigger) == (True, 5)  # type: ignore[union-attr]
    output = errors(path, text, {"H": "true", "M": "many-secrets"})
    assert "line 13: sources.payments.max_offsets_per_trigger: ${M:-5} is not allowed" in output
    assert "many" not in output
    digits = GOOD.replace('"per-merchant"', '"${TOPIC}"')
    assert sink(read(path, digits, {"TOPIC": "2026"})).topic == "2026"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("${NONE}", "the environment has no variable NONE; ${NONE:-default} has a default"),
        ("${}", "'${}' is not a variable: write ${NAME} or ${NAME:-default}, $${ for the text ${"),
        ("${1A}", "'${1A}' is not a variable"),
        ("${A", "'${A' is not a variable"),
        ("${A-b}", "'${A-b}' is not a variable"),
    ],
)
def test_invalid_and_missing_variables_are_errors_with_their_lines(
    path: Path, written: str, message: str
) -> None:
    text = GOOD.replace('"per-merchant"', f'"{written}"')
    assert f"{path}: line 36: sinks.out.topic: {message}" in errors(path, text)


def test_secret_file_is_read_beside_the_pipeline_file_and_without_its_line_end(path: Path) -> None:
    (path.parent / "password").write_text(f"{PASSWORD}\r\n")
    options = 'options = { "sasl.password" = { secret_file = "${DIR:-.}/password" } }'
    text = GOOD.replace('127.0.0.1:9092"', f'127.0.0.1:9092"\n{options}')
    assert read(path, text).clusters["main"].options == {"sasl.password": PASSWORD}
    (path.parent / "password").write_bytes(b"x" * (SECRET_BYTES_MAX + 1))
    output = errors(path, text)
    assert 'line 8: clusters.main.options."sasl.password": ' not in output
    assert "line 8: clusters.main.options.sasl.password: secret_file " in output
    assert output.endswith(f"more than {SECRET_BYTES_MAX} bytes")
    (path.parent / "password").unlink()
    assert errors(path, text).endswith("password: No such file or directory")


@pytest.mark.parametrize("secret", [PASSWORD, "1234", "a,b:c", "jdbc:x"])
def test_no_error_has_a_value_from_outside(path: Path, secret: str) -> None:
    (path.parent / "secret").write_text(secret)
    for old, new in (
        ('"127.0.0.1:9092"', '"${VALUE}"'),
        ('"127.0.0.1:9092"', '"localhost:1,${VALUE}"'),
        ('"127.0.0.1:9092"', '{ secret_file = "secret" }'),
        ('"2 seconds"', '"${VALUE}"'),
        ('"json"', '"${VALUE}"'),
        ('kind = "window"', 'kind = "${VALUE}"'),
        ('["merchant"]', '["${VALUE}", "${VALUE}"]'),
        ('from = "windows"', 'from = "${VALUE}"'),
        ('"merchant STRING, amount DOUBLE, at TIMESTAMP"', '"${VALUE}"'),
    ):
        assert old in GOOD
        output = errors(path, GOOD.replace(old, new), {"VALUE": secret})
        for line in output.splitlines():
            shown = line.partition("; allowed")[0].removeprefix(f"{path}: line ")
            shown = shown.partition(": ")[2]
            assert secret not in shown, line
            assert "battery" not in shown, line


def test_includes_give_tables_that_the_file_adds_to_and_replaces(path: Path) -> None:
    clusters, rest = GOOD.split("[clusters.main]")
    cluster, rest = rest.split("[sources.payments]")
    (path.parent / "shared.toml").write_text(
        f'[clusters.main]{cluster}[pipeline.spark]\n"a.b" = 1\n"a.c" = 1\n[sinks.log]\n'
        'kind = "console"\nfrom = "windows"\nrows = 3\n'
    )
    (path.parent / "later.toml").write_text("[sinks.log]\nrows = 4\n")
    text = (
        'include = ["shared.toml", "later.toml"]\n'
        + clusters
        + '[pipeline.spark]\n"a.b" = 2\n[sources.payments]'
        + rest
    )
    pipeline = read(path, text)
    assert pipeline.clusters["main"].bootstrap_servers == "127.0.0.1:9092"
    assert pipeline.pipeline.spark == {"a.b": 2, "a.c": 1}
    log = pipeline.sinks["log"]
    assert isinstance(log, ConsoleSink)
    assert log.rows == 4
    (path.parent / "later.toml").write_text("[sinks.log]\n\nrows = -4\n")
    assert errors(path, text).startswith(f"{path.parent}/later.toml: line 3: sinks.log.rows: -4 is")


@pytest.mark.parametrize(
    ("include", "message"),
    [
        ('"shared.toml"', "line 1: include: must be an array of file names"),
        ("[1]", "line 1: include: must be an array of file names"),
        ('["none.toml"]', "line 1: include.0: none.toml: No such file or directory"),
        ('["bad.toml"]', "not TOML"),
        ('["deep.toml"]', "deep.toml: line 1: include: an included file cannot include others"),
    ],
)
def test_invalid_includes_are_errors(path: Path, include: str, message: str) -> None:
    (path.parent / "bad.toml").write_text("a = = 1")
    (path.parent / "deep.toml").write_text('include = ["bad.toml"]')
    assert message in errors(path, f"include = {include}\n{GOOD}")


def test_settings_of_the_command_line_come_before_the_file(path: Path) -> None:
    pipeline = read(
        path,
        GOOD,
        {"STAGE": "live"},
        "sinks.out.topic=${STAGE}-topic",
        "sinks.out.key=merchant",
        "pipeline.name=2026",
        "sources.payments.subscribe=['a', 'b']",
        "sources.payments.starting_offsets=latest",
        'clusters.main.options."client.id"=x=y',
        "clusters.main.bootstrap_servers=first:1",
        "clusters.main.bootstrap_servers=last:1",
    )
    assert (sink(pipeline).topic, sink(pipeline).key) == ("live-topic", "merchant")
    assert pipeline.pipeline.name == "2026"
    assert pipeline.sources["payments"].subscribe == ["a", "b"]  # type: ignore[union-attr]
    assert pipeline.clusters["main"].options == {"client.id": "x=y"}
    assert pipeline.clusters["main"].bootstrap_servers == "last:1"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("sinks.out.topic", "--set: 'sinks.out.topic' is not KEY=VALUE, such as"),
        ("=1", "--set: '=1' is not KEY=VALUE"),
        ("a b=1", "--set: 'a b=1' is not KEY=VALUE"),
        ("pipeline.name.x=1", "--set: pipeline.name.x: pipeline.name is a value, not a table"),
        ("sinks.out.topics=1", "--set: sinks.out.topics: an unknown key; allowed: "),
        ("sinks.out.output_mode=all", '--set: sinks.out.output_mode: "all" is not allowed'),
    ],
)
def test_invalid_settings_of_the_command_line_are_errors(
    path: Path, setting: str, message: str
) -> None:
    assert message in errors(path, GOOD, None, setting)


def test_command_takes_settings_and_variables_and_prints_no_value(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text(GOOD.replace("127.0.0.1:9092", "${BROKERS}"))
    monkeypatch.setenv("BROKERS", "not an address")
    assert main(["check", str(path)]) == BAD_FILE
    assert "'${BROKERS}' is not HOST:PORT" in capsys.readouterr().err
    monkeypatch.setenv("BROKERS", "localhost:9092")
    assert main(["check", str(path), "--set", "sinks.out.topic=other"]) == 0
    assert capsys.readouterr().out == f"{path}: 1 source, 2 steps, 1 sink\n"


def test_running_job_prints_no_value_from_outside(path: Path) -> None:
    path.write_text(GOOD.replace("127.0.0.1:9092", "${BROKERS}"))
    done = subprocess.run(
        [sys.executable, "-m", "odradek", "pipeline", "run", str(path)],
        env={**os.environ, "BROKERS": "localhost:1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 1
    assert "clusters.main: no broker responds: ${BROKERS}: Connection refused" in done.stderr
    assert "localhost" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "line",
    [
        'options = { "sasl.password" = "hunter22", "acks" = [] }',
        'options = { "fs.s3a.secret.key" = "hunter22", "acks" = [] }',
        'options = { "sasl.jaas.config" = "hunter22", "acks" = [] }',
        'options = { "apiKey" = "hunter22", "acks" = [] }',
        'options = { "auth.token" = "hunter22", "acks" = [] }',
        'options = { uri = "mongodb://h/?password=hunter22&x=1", "acks" = [] }',
    ],
)
def test_options_named_like_secrets_are_not_printed(
    path: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GOOD.replace('topic = "per-merchant"', f'topic = "per-merchant"\n{line}', 1)
    assert "hunter22" not in errors(path, text)
    path.write_text(text.replace("[]", '"all"').replace('"per-merchant"', '"hunter22/x"', 1))
    assert main(["check", str(path)]) == BAD_FILE
    assert "hunter22" not in "".join(capsys.readouterr())


def test_options_named_like_settings_are_printed(path: Path) -> None:
    line = 'options = { "max.tokens" = "many-of-them", "partition.keys" = "abcdef", acks = [] }'
    text = GOOD.replace('"per-merchant"', f'"many-of-them abcdef"\n{line}', 1)
    assert "many-of-them abcdef" in errors(path, text)


def test_hidden_values_are_replaced_in_output_longest_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hidden = Hidden()
    hidden.add("pass", "${SHORT}")
    hidden.add(PASSWORD, "${LONG}")
    hidden.add("abc", "${TOO_SHORT}")
    with hiding(hidden):
        print(PASSWORD, repr(PASSWORD), "abc pass")
        print("pass", file=sys.stderr)
    print("pass")
    written = capsys.readouterr()
    assert written.out == "${LONG} '${LONG}' abc ${SHORT}\npass\n"
    assert written.err == "${SHORT}\n"
