import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.runtime.kafka_loggers import KAFKA_LOGGERS, LOGGERS
from odradek.runtime.logging import (
    CAUSED_BY_CLIENTS,
    JsonFormatter,
    PlainFormatter,
    format_line,
    logger_levels,
    set_logger_level,
    set_up_logging,
)

PROJECT = Path(__file__).parents[2]
CONFIG = PROJECT / "config"


@pytest.fixture(autouse=True)
def _loggers_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    filtered = {name: logging.getLogger(name).filters[:] for name in CAUSED_BY_CLIENTS}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, filters in filtered.items():
        logging.getLogger(name).filters[:] = filters


def json_lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def record(message: str, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("odradek.test", logging.INFO, "file.py", 1, message, (), None)
    made.created = 1_700_000_000.0625
    vars(made).update(fields)
    return made


def test_plain_line_has_time_level_logger_message_and_fields() -> None:
    line = PlainFormatter().format(record("started", port=9092))
    assert line == "2023-11-14T22:13:20.062Z INFO     odradek.test: started port=9092"


def test_json_line_is_one_object_with_the_extra_fields() -> None:
    line = JsonFormatter().format(record("started", port=9092, name_of_topic="t"))
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.062Z",
        "level": "INFO",
        "logger": "odradek.test",
        "message": "started",
        "port": 9092,
        "name_of_topic": "t",
    }


def test_extra_field_named_like_a_key_gets_an_underscore() -> None:
    line = JsonFormatter().format(record("started", level="x", time=1))
    assert json.loads(line)["level"] == "INFO"
    assert json.loads(line)["level_"] == "x"
    assert json.loads(line)["time_"] == 1


def test_value_unknown_to_json_is_written_as_text() -> None:
    line = JsonFormatter().format(record("x", path=Path("a/b"), data=b"\x00"))
    assert json.loads(line)["path"] == "a/b"
    assert json.loads(line)["data"] == "b'\\x00'"


@given(st.text())
def test_line_breaks_in_a_message_are_escaped(message: str) -> None:
    assert len(PlainFormatter().format(record(message)).splitlines()) == 1
    line = JsonFormatter().format(record(message))
    assert len(line.splitlines()) == 1
    assert json.loads(line)["message"] == message


def test_exception_stays_in_its_json_line_and_follows_a_plain_one() -> None:
    stream = io.StringIO()
    set_up_logging("json", stream=stream)
    logger = logging.getLogger("odradek.test")
    try:
        raise ValueError("no good")
    except ValueError:
        logger.exception("failed")
    (line,) = json_lines(stream)
    assert line["level"] == "ERROR"
    assert line["exception"].endswith("ValueError: no good")

    stream = io.StringIO()
    set_up_logging("plain", stream=stream)
    try:
        raise ValueError("no good")
    except ValueError:
        logger.exception("failed", stack_info=True)
    lines = stream.getvalue().splitlines()
    assert lines[0].endswith("odradek.test: failed")
    assert lines[1].startswith("Traceback")
    assert "ValueError: no good" in lines


def test_setting_up_twice_writes_each_line_once_and_to_the_later_stream() -> None:
    first, second = io.StringIO(), io.StringIO()
    set_up_logging("plain", stream=first)
    set_up_logging("plain", stream=second)
    logging.getLogger("odradek.test").info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_lines_below_the_level_are_dropped() -> None:
    stream = io.StringIO()
    set_up_logging("json", level="WARNING", stream=stream)
    logging.getLogger("odradek.test").info("quiet")
    logging.getLogger("odradek.test").warning("loud")
    assert [line["message"] for line in json_lines(stream)] == ["loud"]


def test_standard_error_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging()
    logging.getLogger("odradek.test").info("here")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "odradek.test: here" in captured.err


def test_format_line_has_the_format_of_the_log() -> None:
    assert format_line("plain", "it is ready", {"port": 9092}) == "it is ready"
    written = json.loads(format_line("json", "it is ready", {"port": 9092}))
    assert (written["message"], written["level"], written["port"]) == ("it is ready", "INFO", 9092)


def test_logger_is_listed_and_changed_while_running() -> None:
    set_up_logging(level="INFO", stream=io.StringIO())
    logging.getLogger("odradek.levels.one")
    assert logger_levels()["root"] == "INFO"
    assert logger_levels()["odradek.levels.one"] == "INFO"
    assert set_logger_level("odradek.levels.one", "WARN")
    assert logger_levels()["odradek.levels.one"] == "WARN"
    assert set_logger_level("odradek.levels.one", "TRACE")
    assert logger_levels()["odradek.levels.one"] == "DEBUG"
    assert set_logger_level("odradek.levels.one", None)
    assert set_logger_level("root", "ERROR")
    assert logger_levels()["odradek.levels.one"] == "ERROR"


def test_loggers_of_kafka_have_the_levels_of_ours() -> None:
    name = "kafka.controller.KafkaController"
    own = logging.getLogger(KAFKA_LOGGERS[name])
    try:
        assert set_logger_level(name, "TRACE")
        assert own.level == logging.DEBUG
        levels = logger_levels()
        assert levels[name] == levels["state.change.logger"] == levels[own.name] == "DEBUG"
        assert levels["kafka.server.ReplicaManager"] == levels["root"]
        assert set_logger_level(name, None)
        assert own.level == logging.NOTSET
    finally:
        own.setLevel(logging.NOTSET)


def test_each_logger_that_stands_for_one_of_kafka_is_written_to() -> None:
    folders = ("broker", "controller", "runtime", "storage", "odradek/tools")
    sources = [path for folder in folders for path in (PROJECT / folder).rglob("*.py")]
    text = "".join(path.read_text() for path in sources)
    for own in LOGGERS:
        assert f'getLogger("{own}")' in text or f'Logger("{own}"' in text, own


def test_set_logger_level_returns_false_for_unknown_loggers_and_a_root_without_level() -> None:
    assert not set_logger_level("odradek.no.such.logger", "INFO")
    assert not set_logger_level("root", None)
