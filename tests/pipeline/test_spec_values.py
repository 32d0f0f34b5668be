"""Invalid values that Spark would accept or misread: the check reports them."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.pipeline.cli import main
from odradek.pipeline.spec.load import load, parse
from odradek.pipeline.spec.problems import SpecError
from tests.pipeline.pipeline_files import FILE, GOOD, problems

SUBSCRIBE = 'subscribe = ["payments"]\nstarting_offsets = { payments = { 0 = 5, 1 = -2 } }\n'
TOPIC = "'^[A-Za-z0-9._-]{1,249}$'"
SINK = 'kind = "kafka"\nfrom = "windows"\ncluster = "main"\ntopic = "per-merchant"\n'
JDBC = 'kind = "jdbc"\nfrom = "windows"\nurl = "{url}"\ntable = "t"\nkeys = ["merchant"]\n'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"127.0.0.1:9092"',
            '"127.0.0.1"',
            "line 7: clusters.main.bootstrap_servers: '127.0.0.1' is not HOST:PORT; several are"
            " separated by commas",
        ),
        (
            '"127.0.0.1:9092"',
            '"127.0.0.1:99999"',
            "line 7: clusters.main.bootstrap_servers: '127.0.0.1:99999' has no port from 1 to"
            " 65535",
        ),
        (
            "[sources.payments]",
            '[clusters.main.options]\nsecurity.protocol = "SSL"\n[sources.payments]',
            'line 10: clusters.main.options.security: {"protocol": "SSL"} is not allowed: Input'
            " should be a valid string, or a valid integer, or a valid number, or a valid boolean;"
            ' quote a key with dots: "security.protocol"',
        ),
        (
            SUBSCRIBE,
            'subscribe = ["a,b"]\n',
            'line 12: sources.payments.subscribe.0: "a,b" is not allowed: String should match'
            f" pattern {TOPIC}",
        ),
        (
            SUBSCRIBE,
            "assign = { payments = [] }\n",
            "line 12: sources.payments.assign.payments: [] is not allowed: List should have at"
            " least 1 item after validation, not 0",
        ),
        (
            "0 = 5",
            "0 = -3",
            "line 13: sources.payments.starting_offsets.payments.0: -3 is not allowed: Input should"
            " be greater than or equal to -2",
        ),
        (
            "{ payments = { 0 = 5, 1 = -2 } }",
            '"none"',
            'line 13: sources.payments.starting_offsets: "none" is not allowed: Input should be'
            " 'earliest' or 'latest', or a table",
        ),
        (
            "{ payments = {",
            "{ refunds = {",
            "line 9: sources.payments: starting_offsets must name the partitions of every topic;"
            " payments is missing",
        ),
        (
            SUBSCRIBE,
            SUBSCRIBE + "starting_timestamp_ms = 1\n",
            "line 9: sources.payments: starting_timestamp_ms and starting_offsets exclude each"
            " other",
        ),
        (
            SINK,
            JDBC.format(url="jdbc:mysql://h/d?password=secret"),
            "line 35: sinks.out.url: 'jdbc:mysql://h/d' is not allowed; allowed: jdbc:sqlite:...,"
            " jdbc:postgresql:..., jdbc:mariadb:...",
        ),
        (
            SINK,
            JDBC.format(url="rows.db"),
            "line 35: sinks.out.url: 'rows.db' is not a JDBC address like jdbc:sqlite:FILE",
        ),
        (
            'group_by = ["merchant"]',
            'group_by = ["n"]',
            "line 23: steps.windows: column 'n' would exist twice; give it another name",
        ),
        ('"10 seconds"', '"0 seconds"', "line 28: steps.windows.length: 0 seconds is not positive"),
        (
            '"2 seconds"',
            '"99999999 days"',
            "line 4: pipeline.trigger: 99999999 days is longer than 100 years",
        ),
        (
            '"json"\nschema = "merchant STRING,',
            '"csv"\nschema = "merchant ARRAY<STRING>,',
            "line 19: steps.parsed.schema: column merchant: CSV has no ARRAY; read it as STRING",
        ),
        (
            'rejects = "payments-rejected"',
            'keep = ["Amount"]\nrejects = "payments-rejected"',
            "line 15: steps.parsed: keep: the schema has a column 'Amount' too",
        ),
        (
            'kind = "kafka"\nfrom',
            "from",
            "line 32: sinks.out.kind: must be given; allowed: 'kafka', 'files', 'jdbc', 'spark',"
            " 'http', 'console'",
        ),
        (
            "[steps.windows]",
            "[steps.Payments]",
            "line 23: steps.Payments: a source has this name already (payments: SQL ignores"
            " case); names are views of SQL",
        ),
        (
            "[sinks.out]",
            "[sinks.parsed_rejects]",
            "line 32: sinks.parsed_rejects: the query of step parsed that writes its rejects has"
            " this name already",
        ),
    ],
)
def test_invalid_value_is_an_error_with_its_line(old: str, new: str, message: str) -> None:
    assert GOOD.count(old) == 1
    text = GOOD.replace(old, new)
    if "Payments" in new:
        text = text.replace('from = "windows"', 'from = "Payments"')
    assert problems(text) == [message]


FILES = """\
[pipeline]
name = "files"
mode = "{mode}"
checkpoint = "state"
trigger = "1 second"
[sources.numbers]
kind = "{kind}"
{rest}
[sinks.one]
kind = "files"
from = "numbers"
path = "out"
format = "json"
[sinks.two]
kind = "files"
from = "numbers"
path = "./out"
format = "json"
"""


def test_folder_with_two_users_is_an_error() -> None:
    """Spark would skip a batch whose number another query has written."""
    text = FILES.format(mode="stream", kind="rate", rest="rows_per_second = 1")
    message = "line 17: sinks.two.path: sink one writes './out' already; give another folder"
    assert problems(text) == [message]
    rest = 'path = "out"\nformat = "json"\nschema = "a INT"'
    messages = problems(FILES.format(mode="stream", kind="files", rest=rest))
    assert [message_text.partition(".path: ")[2] for message_text in messages] == [
        "source numbers reads 'out' already; give another folder",
        "source numbers reads './out' already; give another folder",
    ]


def test_mode_of_the_command_line_is_checked(tmp_path: Path) -> None:
    text = FILES.format(mode="stream", kind="rate", rest="rows_per_second = 1")
    text = text.replace('"./out"', '"other"')
    assert parse(text, FILE).pipeline.trigger == "1 second"
    assert parse(text, FILE, "available_now").pipeline.mode == "available_now"
    with pytest.raises(SpecError, match=r"line 7: sources.numbers.kind: a rate never ends"):
        parse(text, FILE, "batch")
    path = tmp_path / "my.toml"
    path.write_text(text.replace('checkpoint = "state"\n', "").replace('"stream"', '"batch"'))
    with pytest.raises(SpecError, match="line 1: pipeline: mode stream needs a checkpoint folder"):
        load(path, "stream")


def test_batch_from_the_latest_offset_is_an_error() -> None:
    text = GOOD.replace('trigger = "2 seconds"\n', 'mode = "batch"\n')
    text = text.replace("{ payments = { 0 = 5, 1 = -2 } }", '"latest"')
    (message,) = problems(text)
    assert message.startswith("line 13: sources.payments.starting_offsets: a batch that begins at")


def test_byte_order_mark_is_ignored_and_deep_nesting_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text("\ufeff" + GOOD, encoding="utf-8")
    assert load(path).pipeline.name == "payments"
    (message,) = problems(f"{GOOD}x = {'[' * 5_000}{']' * 5_000}\n")
    assert message == "not TOML: more than 100 levels deep"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--metrics-port", "99999"], "'99999' is not a port from 1 to 65535"),
        (["--metrics-port", "0"], "'0' is not a port from 1 to 65535"),
        (["--master", "nonsense"], "'nonsense' is not a master of Spark; allowed: local, local[N]"),
    ],
)
def test_invalid_option_is_wrong_usage(
    option: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "my.toml", *option])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
