"""Why Spark failed, in one line: its errors without plans and stack traces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from pipeline.spec.ends import KafkaSource
from pipeline.spec.model import Pipeline

CAUSES_MAX: Final = 20
LINE_LENGTH_MAX: Final = 600

_OURS: Final = re.compile(r"^pipeline\.[\w.]+: (.+)$", re.MULTILINE)
"""What a function of ours has raised, as Python prints it at the end of a traceback."""
_CODE: Final = re.compile(r"^\[[A-Z0-9_.]+\] ")
_SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w+\.?")
_LOST: Final = re.compile(r"Reason:?\s*(.+)", re.DOTALL)
_STATE_STORE: Final = re.compile(r"\[STATE_STORE_\w*SCHEMA\w*\]")
_ABSENT: Final = re.compile(r"Topic (\S+) not present in metadata")


def told(error: BaseException, pipeline: Pipeline | None = None) -> str:
    """One line that says what is wrong.

    pipeline  whose topics are named where Kafka does not name them
    """
    ours: list[str] = _OURS.findall(str(error))
    if ours:
        said = ours[-1]
    elif isinstance(error, Py4JNetworkError) or (
        isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
    ):
        said = "Spark's Java process has ended: it was killed, or had too little memory"
    else:
        said = _said(messages(error), pipeline)
    return said if len(said) <= LINE_LENGTH_MAX else said[: LINE_LENGTH_MAX - 3] + "..."


def messages(error: BaseException) -> list[str]:
    """`class: message` of a failure of Spark and its causes, the last one deepest."""
    origin = error.java_exception if isinstance(error, Py4JJavaError) else None
    if isinstance(error, PySparkException):
        origin = getattr(error, "_origin", None)
    if origin is None:
        return [str(error)]
    try:
        return java_messages(origin)
    except (Py4JError, OSError):
        # The Java process is gone, and with it what it knew.
        return [str(error)]


def java_messages(origin: Any) -> list[str]:
    """The same of a Java exception."""
    found: list[str] = []
    while origin is not None and len(found) < CAUSES_MAX:
        name = origin.getClass().getName()
        found.append(f"{name}: {(origin.getMessage() or '').strip()}".strip())
        origin = origin.getCause()
    return found


def first_line(message: str) -> str:
    """A message without its class's name, the SQL state and what follows its first line."""
    line = _SQL_STATE.sub("", message.strip().split("\n", 1)[0])
    name, colon, rest = line.partition(": ")
    is_class = colon and "." in name and " " not in name
    said = (rest if is_class and rest.strip() else line).strip().rstrip(";")
    return _CODE.sub("", said)


def _said(found: Sequence[str], pipeline: Pipeline | None) -> str:
    deepest = found[-1]
    whole = "\n".join(found)
    if "UnknownTopicOrPartitionException" in whole:
        return f"a topic does not exist{_topics(pipeline)}"
    absent = _ABSENT.search(whole)
    if absent is not None:
        return f"topic {absent[1]} does not exist, and the cluster does not make it"
    if "Some data may have been lost" in whole or "KAFKA_DATA_LOSS" in whole:
        return (
            f"records are gone before they were read: {_lost(whole)}; with fail_on_data_loss ="
            " false the source goes on with what there is"
        )
    if _STATE_STORE.search(whole):
        return (
            "the columns of a step that remembers have changed, and the checkpoint holds the old"
            " ones; give another checkpoint folder"
        )
    if "org.apache.kafka" in deepest and "TimeoutException" in deepest:
        return f"the cluster does not answer: {first_line(deepest)}"
    return first_line(deepest)


def _topics(pipeline: Pipeline | None) -> str:
    if pipeline is None:
        return ""
    named: list[str] = []
    for source in pipeline.sources.values():
        if isinstance(source, KafkaSource):
            named += source.subscribe or list(source.assign or {})
    return f"; the sources read: {', '.join(dict.fromkeys(named))}" if named else ""


def _lost(whole: str) -> str:
    reason = _LOST.search(whole)
    return first_line(reason[1]) if reason is not None else "the topic was deleted, or aged out"
