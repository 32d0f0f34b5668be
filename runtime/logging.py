"""The set-up of logging: plain lines, or one JSON object per line.

Everything goes through the standard library's `logging`; pure code does not log.  A JSON line has
`time` (UTC, ISO 8601, milliseconds), `level`, `logger`, `message`, `exception` if there is one, and
every `extra` field.  A message is one line in both formats, so that text from the network cannot
forge a line.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Final, Protocol, TextIO
from weakref import WeakSet

from odradek.runtime.repeated_lines import RepeatedLines

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FORMATS: Final = ("plain", "json")

STANDARD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
}
"""The attributes of every record; all others are `extra` fields."""

CAUSED_BY_CLIENTS: Final = ("odradek.server", "odradek.groups", "odradek.producer_ids")
"""Loggers whose lines clients cause; the first argument of each line names the client or group."""

REQUESTS: Final = "odradek.requests"
"""The logger of requests: WARNING unless its own level is set, as in Kafka's log4j.properties."""


class LevelObserver(Protocol):
    """What follows the levels of loggers."""

    def on_logger_level(self) -> None:
        """A level has changed."""


_LEVEL_OBSERVERS: Final[WeakSet[LevelObserver]] = WeakSet()

RESERVED_KEYS: Final = ("time", "level", "logger", "message", "exception")

LINE_BREAKS: Final = str.maketrans(
    {character: repr(character)[1:-1] for character in "\n\r\v\f\x1b\x1c\x1d\x1e\x85\u2028\u2029"}
)


def timestamp(created_s: float) -> str:
    """`2026-11-21T10:15:30.123Z`."""
    seconds, milliseconds = divmod(int(created_s * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{milliseconds:03d}Z"


def error_text(error: BaseException) -> str:
    """The class of an error and its text, or the class alone: `TimeoutError: no response`."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def extra_fields(record: logging.LogRecord) -> dict[str, object]:
    """The `extra` fields, in their order."""
    return {key: value for key, value in vars(record).items() if key not in STANDARD_FIELDS}


class PlainFormatter(logging.Formatter):
    """`time level logger: message key=value…`, then the traceback on further lines."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {key}={value}" for key, value in extra_fields(record).items())
        line = f"{record.getMessage()}{fields}".translate(LINE_BREAKS)
        text = f"{timestamp(record.created)} {record.levelname:<8} {record.name}: {line}"
        trace = self.trace(record)
        return f"{text}\n{trace}" if trace else text

    def trace(self, record: logging.LogRecord) -> str:
        """The traceback and the stack of a record; empty when it has neither."""
        parts = []
        if record.exc_info and record.exc_info[0] is not None:
            parts.append(self.formatException(record.exc_info))
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        return "\n".join(parts)


class JsonFormatter(PlainFormatter):
    """One object per line; values that JSON cannot represent are written as `str`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": timestamp(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        trace = self.trace(record)
        if trace:
            line["exception"] = trace
        for key, value in extra_fields(record).items():
            line[f"{key}_" if key in RESERVED_KEYS else key] = value
        return json.dumps(line, default=str, ensure_ascii=False, separators=(",", ":")).translate(
            JSON_LINE_BREAKS
        )


JSON_LINE_BREAKS: Final = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""Characters that JSON does not escape, and that some readers take for the end of a line."""


def build_handler(log_format: str, stream: TextIO) -> logging.Handler:
    """A handler that writes to `stream`; `log_format` is one of `FORMATS`."""
    assert log_format in FORMATS, f"{log_format} is not one of {', '.join(FORMATS)}"
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if log_format == "json" else PlainFormatter())
    return handler


def set_up_logging(
    log_format: str = "plain", *, level: str = "INFO", stream: TextIO | None = None
) -> None:
    """Send all log lines of this process to one stream; replaces an earlier set-up.

    log_format  one of `FORMATS`
    level       one of `LEVELS`; lower levels are dropped
    stream      standard error when None
    """
    assert level in LEVELS, f"{level} is not one of {', '.join(LEVELS)}"
    root = logging.getLogger()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    root.addHandler(build_handler(log_format, sys.stderr if stream is None else stream))
    root.setLevel(level)
    limit_repeated_lines()


def limit_repeated_lines() -> None:
    """Put a `RepeatedLines` filter on the loggers of `CAUSED_BY_CLIENTS`."""
    for name in CAUSED_BY_CLIENTS:
        logger = logging.getLogger(name)
        if not any(isinstance(log_filter, RepeatedLines) for log_filter in logger.filters):
            logger.addFilter(RepeatedLines())


def format_line(
    log_format: str, message: str, fields: Mapping[str, object], *, level: int = logging.INFO
) -> str:
    """A line for a terminal in the format of the log: `message` when plain, otherwise JSON.

    log_format  one of `FORMATS`
    fields      further keys of the JSON object
    """
    if log_format == "plain":
        return message
    record = logging.LogRecord("odradek", level, "", 0, message, None, None)
    vars(record).update(fields)
    return JsonFormatter().format(record)


KAFKA_LEVELS: Final = {
    "FATAL": "CRITICAL",
    "ERROR": "ERROR",
    "WARN": "WARNING",
    "INFO": "INFO",
    "DEBUG": "DEBUG",
    "TRACE": "DEBUG",
}
"""Levels of KIP-412 -> those of the standard library, which has none below DEBUG."""

ROOT_LOGGER: Final = "root"


def observe_levels(observer: LevelObserver) -> None:
    """Call `observer` after each change by `set_logger_level`, as long as it exists."""
    _LEVEL_OBSERVERS.add(observer)


def logger_levels() -> dict[str, str]:
    """Logger -> the level in force, as one of `KAFKA_LEVELS` (KIP-412); also by Kafka's names."""
    # Imported when levels are asked for: a start needs none of it.
    from odradek.runtime.kafka_loggers import KAFKA_LOGGERS

    words = {own: kafka for kafka, own in reversed(KAFKA_LEVELS.items())}
    names = sorted(
        name
        for name, logger in logging.Logger.manager.loggerDict.items()
        if isinstance(logger, logging.Logger)
    )
    levels = {ROOT_LOGGER: logging.getLogger().level}
    levels |= {name: logging.getLogger(name).getEffectiveLevel() for name in names}
    levels |= {
        kafka: logging.getLogger(own).getEffectiveLevel() for kafka, own in KAFKA_LOGGERS.items()
    }
    return {name: words.get(logging.getLevelName(level), "INFO") for name, level in levels.items()}


def set_logger_level(name: str, level: str | None) -> bool:
    """Change a logger's level while running (KIP-412).

    name     of this broker, or one of `KAFKA_LOGGERS`
    level    one of `KAFKA_LEVELS`; None inherits the level of the parent logger
    returns  False when there is no such logger, or `level` is None for the root
    """
    from odradek.runtime.kafka_loggers import KAFKA_LOGGERS

    if name == ROOT_LOGGER:
        if level is None:
            return False
        logging.getLogger().setLevel(KAFKA_LEVELS[level])
        return True
    own = KAFKA_LOGGERS.get(name)
    if own is None and not isinstance(logging.Logger.manager.loggerDict.get(name), logging.Logger):
        return False
    changed = own or name
    unset = logging.WARNING if changed == REQUESTS else logging.NOTSET
    logging.getLogger(changed).setLevel(unset if level is None else KAFKA_LEVELS[level])
    for observer in tuple(_LEVEL_OBSERVERS):
        observer.on_logger_level()
    return True
