"""Notices topics that were deleted and created again: their offsets are not those of a checkpoint.

Spark compares offsets only.  It fails when a topic has fewer records than before, and otherwise
reads on in the middle of the new one.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from odradek.bounded_parsing import parse_json
from odradek.pipeline.offset_log import write_durably
from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.sources import KafkaSource
from odradek.pipeline.topics import admin_of, topic_ids

FILE: Final = "topics.json"
"""Topic ids by cluster and topic, in a checkpoint folder; a query's name has no dot."""
INTERVAL_S: Final = 2.0
COST_SHARE_MAX: Final = 0.1
"""The share of the time that checks take, where there are thousands of topics."""


class TopicIdentities:
    """The ids of the topics that a stream reads, checked at its start and while it runs.

    checkpoint  the folder of the pipeline's checkpoints
    """

    def __init__(self, spark: SparkSession, pipeline: PipelineSpec, checkpoint: Path) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self._sources = {
            name: source
            for name, source in pipeline.sources.items()
            if isinstance(source, KafkaSource) and not source.is_static
        }
        self._clusters = pipeline.clusters
        self._admins: dict[str, Any] = {}
        self._stack = ExitStack()
        self._due_s = 0.0
        self._ids: dict[str, dict[str, str]] = _read(checkpoint / FILE)

    def __enter__(self) -> TopicIdentities:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Py4JError, OSError):
            self._stack.close()

    def check_if_due(self) -> None:
        """`check`, every INTERVAL_S.

        raises  PartFailed
        """
        begin_s = time.monotonic()
        if begin_s < self._due_s:
            return
        self.check()
        end_s = time.monotonic()
        self._due_s = end_s + max(INTERVAL_S, (end_s - begin_s) / COST_SHARE_MAX)

    def check(self) -> None:
        """Compare the topics in Spark's offset logs with their recorded ids, and record new ones.

        A topic that the cluster does not describe now keeps its recorded id.
        raises  PartFailed for the source of a topic with another id
        cost    a request to each cluster, two seconds or more when it does not respond
        """
        logged = set(_logged_topics(self._checkpoint))
        present: dict[str, dict[str, str]] = {}
        for name, source in self._sources.items():
            topics = set(source.topics) or {topic for topic in logged if _matches(source, topic)}
            recorded = self._ids.get(source.cluster, {})
            ids = self._described(source.cluster, topics)
            for topic, topic_id in sorted(ids.items()):
                if topic in logged and recorded.get(topic, topic_id) != topic_id:
                    raise PartFailed(("sources", name), _said(topic, source.cluster))
            earlier = {topic: recorded[topic] for topic in sorted(topics) if topic in recorded}
            present.setdefault(source.cluster, {}).update(earlier | ids)
        if present != self._ids:
            write_durably(self._checkpoint / FILE, json.dumps(present, indent=2) + "\n")
            self._ids = present

    def _described(self, cluster: str, topics: set[str]) -> dict[str, str]:
        """Topic -> id, as far as the cluster says it."""
        if not topics:
            return {}
        try:
            if cluster not in self._admins:
                admin = admin_of(self._spark, self._clusters[cluster])
                self._admins[cluster] = self._stack.enter_context(admin)
            return topic_ids(self._spark, self._admins[cluster], topics)
        except (Py4JError, OSError):
            return {}


def _said(topic: str, cluster: str) -> str:
    return (
        f"topic {topic} of cluster {cluster} was deleted and created again, so its offsets start"
        " again and the checkpoint folder contains the old ones; give another checkpoint folder, or"
        " remove this one: all topics are then read from starting_offsets"
    )


def _matches(source: KafkaSource, topic: str) -> bool:
    """Whether a topic contains a pattern, as Spark asks; True where only Java reads the pattern."""
    if source.pattern is None:
        return False
    try:
        return re.search(source.pattern, topic) is not None
    except re.error:
        return True


def _logged_topics(checkpoint: Path) -> Iterator[str]:
    """The topics in the newest entry of each query's offset log: Spark has positions in them.

    An entry has a line of JSON for each source, for Kafka topic -> partition -> offset.
    """
    for folder in sorted(checkpoint.glob("*/offsets")):
        numbers = [int(path.name) for path in folder.iterdir() if path.name.isdecimal()]
        if not numbers:
            continue
        text = (folder / str(max(numbers))).read_text(encoding="utf-8")
        for line in text.splitlines()[2:]:
            with suppress(ValueError):
                topics = parse_json(line)
                if isinstance(topics, dict):
                    yield from (name for name, of in topics.items() if isinstance(of, dict))


def _read(path: Path) -> dict[str, dict[str, str]]:
    """The recorded ids; none when there is no file, or not a whole one."""
    try:
        recorded = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return recorded if isinstance(recorded, dict) else {}
