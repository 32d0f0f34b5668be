"""Reduces a failure of Spark to one line without plans and stack traces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from odradek.pipeline.spec.key_lines import Path
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.sources import KafkaSource

CAUSES_MAX: Final = 20
LINE_LENGTH_MAX: Final = 600

_OURS: Final = re.compile(r"^odradek\.pipeline\.[\w.]+: (.+)$", re.MULTILINE)
"""The last line of a Python traceback for an exception of this package."""
_CODE: Final = re.compile(r"^\[[A-Z0-9_.]+\] ")
_SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w+\.?")
_LOST: Final = re.compile(r"Reason:?\s*(.+)", re.DOTALL)
_STATE_STORE: Final = re.compile(r"\[STATE_STORE_\w*SCHEMA\w*\]")
_ABSENT: Final = re.compile(r"TimeoutException: Topic (\S+) not present in metadata")
_UNKNOWN: Final = re.compile(r"^[\w.]+\.UnknownTopicOrPartitionException\b", re.MULTILINE)
_DATA_LOSS: Final = re.compile(
    r"^[\w.$]+: (\[KAFKA_DATA_LOSS\b|Some data may have been lost)", re.MULTILINE
)
_OFFSETS: Final = re.compile(
    r"^[\w.$]+: (assertion failed: If startingOffsets contains specific offsets, you must specify"
    r"|(\[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED\] )?Partitions specified for Kafka start)",
    re.MULTILINE,
)
_CHANGED: Final = re.compile(r"Partition (\S+)-(\d+) offset was changed from (\d+) to (\d+)")
_BEYOND: Final = re.compile(r"assertion failed: Beginning offset \d+ is after the ending offset")
_OF_A_SOURCE: Final = (_UNKNOWN, _DATA_LOSS, _OFFSETS, _BEYOND)


def error_line(error: BaseException, pipeline: PipelineSpec | None = None) -> str:
    """The cause of a failure in one line of at most LINE_LENGTH_MAX characters.

    pipeline  its topics are named where the error of Kafka has no name
    """
    ours: list[str] = _OURS.findall(str(error))
    if ours:
        line = ours[-1]
    elif isinstance(error, Py4JNetworkError) or (
        isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
    ):
        line = "Spark's Java process has ended: it was killed, or had too little memory"
    else:
        line = _said(messages(error), pipeline)
    return line if len(line) <= LINE_LENGTH_MAX else line[: LINE_LENGTH_MAX - 3] + "..."


def messages(error: BaseException) -> list[str]:
    """`class: message` of a failure of Spark and of its causes, the root cause last."""
    origin = error.java_exception if isinstance(error, Py4JJavaError) else None
    if isinstance(error, PySparkException):
        origin = getattr(error, "_origin", None)
    if origin is None:
        return [str(error)]
    try:
        return java_messages(origin)
    except (Py4JError, OSError):
        # The Java process has ended; the causes were stored there.
        return [str(error)]


def java_messages(origin: Any) -> list[str]:
    """`class: message` of a Java exception and of its causes, the root cause last."""
    messages: list[str] = []
    while origin is not None and len(messages) < CAUSES_MAX:
        name = origin.getClass().getName()
        messages.append(f"{name}: {(origin.getMessage() or '').strip()}".strip())
        origin = origin.getCause()
    return messages


def first_line(message: str) -> str:
    """The first line of a message, without class name, error code and SQL state."""
    line = _SQL_STATE.sub("", message.strip().split("\n", 1)[0])
    name, colon, rest = line.partition(": ")
    is_class = colon and "." in name and " " not in name
    text = (rest if is_class and rest.strip() else line).strip().rstrip(";")
    return _CODE.sub("", text)


def _said(causes: Sequence[str], pipeline: PipelineSpec | None) -> str:
    deepest = causes[-1]
    whole = "\n".join(causes)
    absent = _ABSENT.search(whole)
    if absent is not None:
        return f"topic {absent[1]} does not exist, and the cluster does not create it"
    if _UNKNOWN.search(whole):
        return f"a topic does not exist{_topics(pipeline)}"
    if _DATA_LOSS.search(whole):
        return _lost(whole, pipeline)
    if _OFFSETS.search(whole):
        return (
            "starting_offsets and ending_offsets must name every partition of every topic that is"
            " read, and no other: -2 is its first offset, -1 its end"
        )
    if deepest.endswith("SQLException: No suitable driver"):
        return (
            "no driver for this address: put its jar into the folder of --jars, and say its class:"
            ' options = { driver = "..." }'
        )
    if _STATE_STORE.search(whole):
        return (
            "the columns of a step with state have changed, and the checkpoint contains the old"
            " ones; give another checkpoint folder"
        )
    if "org.apache.kafka" in deepest and "TimeoutException" in deepest:
        return f"the cluster does not respond: {first_line(deepest)}"
    return first_line(deepest)


def _topics(pipeline: PipelineSpec | None) -> str:
    if pipeline is None:
        return ""
    named: list[str] = []
    for source in pipeline.sources.values():
        if isinstance(source, KafkaSource):
            named += source.subscribe or list(source.assign or {})
    return f"; the sources read: {', '.join(dict.fromkeys(named))}" if named else ""


def _lost(whole: str, pipeline: PipelineSpec | None) -> str:
    changed = _CHANGED.search(whole)
    if changed is not None:
        topic, partition, offset, present = changed.groups()
        given = {} if pipeline is None else pipeline.sources
        for source in given.values():
            if not isinstance(source, KafkaSource) or isinstance(source.starting_offsets, str):
                continue
            if source.starting_offsets.get(topic, {}).get(partition) == int(offset):
                side = "ends" if int(offset) > int(present) else "begins"
                return (
                    f"starting_offsets: partition {partition} of {topic} {side} at {present}, so"
                    f" there is no {offset}"
                )
    reason = _LOST.search(whole)
    text = (
        first_line(reason[1])
        if reason is not None
        else "the topic was deleted, or its records expired"
    )
    return (
        f"records were deleted before they were read: {text}; with fail_on_data_loss = false the"
        " source continues with the records that exist"
    )


def lacks_topic(error: BaseException | None) -> bool:
    """Whether the cause is a missing topic."""
    whole = "" if error is None else "\n".join(messages(error))
    return bool(_ABSENT.search(whole) or _UNKNOWN.search(whole))


def has_overflow(error: BaseException | None) -> bool:
    """Whether the cause may be a timestamp of a record that Spark cannot read."""
    # Sinks that write whole batches report it in one line, without the class.
    return error is not None and "long overflow" in "\n".join(messages(error))


def failed_part(where: Path, error: BaseException, pipeline: PipelineSpec) -> Path:
    """The part to blame for a failure in `where`: a source, if only a source can cause it."""
    whole = "\n".join(messages(error))
    if _ABSENT.search(whole) or not any(pattern.search(whole) for pattern in _OF_A_SOURCE):
        return where
    above = {
        name: source
        for name, source in pipeline.sources.items()
        if isinstance(source, KafkaSource) and name in pipeline.sources_of(str(where[1]))
    }
    named = [
        name
        for name, source in above.items()
        if any(re.search(rf"\b{re.escape(topic)}-\d+\b", whole) for topic in source.topics)
    ]
    suspects = named or list(above)
    return ("sources", suspects[0]) if len(suspects) == 1 else where
