"""`odradek topics --describe`."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final
from uuid import UUID

from odradek.protocol.topic_partition import ZERO_UUID
from odradek.tools.client import Client
from odradek.tools.errors import ToolError
from odradek.tools.options import Options
from odradek.tools.topics.options import REPORTS
from odradek.tools.topics.queries import (
    PARTITIONS_PER_RESPONSE,
    describe_configs,
    describe_topic_id,
    describe_topics,
    find_topics,
    live_brokers,
    reassignments_of,
)
from odradek.tools.topics.render import Topic, is_shown, partition_line, topic_id_text, topic_line

ID_LENGTH_MAX: Final = 24
_NOT_BASE64: Final = re.compile(r"[^A-Za-z0-9_=-]")


def describe(client: Client, options: Options) -> None:
    """Print topics with their partitions, or only the partitions that a report selects.

    Topics are sorted by name.
    """
    if options.has("if-exists") and options.has("topic") and options.has("topic-id"):
        print(
            "Only topic id will be used when both --topic and --topic-id are specified and "
            "topicId is not Uuid.ZERO_UUID"
        )
    id_text = options.value("topic-id")
    topic_id = ZERO_UUID if id_text is None else parse_topic_id(id_text)
    live = live_brokers(client)
    topics = _topics(client, options, topic_id, live)
    if not topics:
        return
    configs = describe_configs(client, [topic.name for topic in topics])
    reassignments = reassignments_of(client, topics)
    is_report = any(options.has(report) for report in REPORTS)
    only_overrides = options.has("topics-with-overrides")
    for topic in topics:
        of_topic = configs.get(topic.name, {})
        has_overrides = not all(config.is_default for config in of_topic.values())
        if not is_report and (has_overrides or not only_overrides):
            print(topic_line(topic, of_topic, reassignments.get((topic.name, 0))))
        if only_overrides:
            continue
        for partition in topic.partitions:
            reassignment = reassignments.get((topic.name, partition.partition_index))
            if not is_report or is_shown(
                options, partition, of_topic, reassignment=reassignment, live=live
            ):
                print(partition_line(topic.name, partition, reassignment))


def _topics(client: Client, options: Options, topic_id: UUID, live: list[int]) -> list[Topic]:
    """The topic with `topic_id`, or else the topics that the options name."""
    exclude_internal = options.has("exclude-internal")
    must_exist = not options.has("if-exists")
    if topic_id != ZERO_UUID:
        topic = describe_topic_id(client, topic_id, live, exclude_internal=exclude_internal)
        if topic is None and must_exist:
            raise ToolError(f"TopicId '{topic_id_text(topic_id)}' does not exist as expected")
        return [] if topic is None else [topic]
    names = find_topics(
        client, options.value("topic"), exclude_internal=exclude_internal, must_exist=must_exist
    )
    if not names:
        return []
    partitions_max = options.number("partition-size-limit-per-response")
    if partitions_max is None:
        partitions_max = PARTITIONS_PER_RESPONSE
    return describe_topics(client, names, live, partitions_max)


def parse_topic_id(text: str) -> UUID:
    """Parse a topic id as `--describe` prints it.

    raises  ToolError with the message of Kafka's Uuid.fromString
    """
    if len(text) > ID_LENGTH_MAX:
        raise ToolError(
            f"Input string with prefix `{text[:ID_LENGTH_MAX]}` is too long to be decoded as a "
            "base64 UUID"
        )
    wrong = _NOT_BASE64.search(text)
    if wrong is not None:
        raise ToolError(f"Illegal base64 character {ord(wrong[0]):x}")
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ToolError(f"Input string `{text}` is not base64: {error}") from None
    if len(data) != 16:
        raise ToolError(
            f"Input string `{text}` decoded as {len(data)} bytes, which is not equal to the "
            "expected 16 bytes of a base64-encoded UUID"
        )
    return UUID(bytes=data)
