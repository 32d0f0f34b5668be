"""KAFKA_CREATE_TOPICS: `name:partitions:replicas[:policy [--config key=value]...]`, with commas.

Source: wurstmeister/kafka-docker, create-topics.sh.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.broker.topics import is_valid_topic_name
from odradek.container.names import EnvironmentRefused

VARIABLE: Final = "KAFKA_CREATE_TOPICS"
SEPARATOR: Final = "KAFKA_CREATE_TOPICS_SEPARATOR"
POLICIES: Final = ("", "delete", "compact")
FORMAT: Final = "name:partitions:replicas[:cleanup.policy]"
COUNT_MAX: Final = 10_000
TOPICS_MAX: Final = 10_000


class NewTopic(NamedTuple):
    """A topic that is created once the broker has started, unless it exists."""

    name: str
    partitions: int
    replicas: int
    configs: tuple[str, ...]
    """`key=value` each."""


def new_topics(environment: Mapping[str, str]) -> tuple[NewTopic, ...]:
    """The topics of the environment.

    raises  EnvironmentRefused
    """
    separators = environment.get(SEPARATOR) or ","
    text = environment.get(VARIABLE, "")
    for separator in separators:
        text = text.replace(separator, "\n")
    items = [item.strip() for item in text.split("\n") if item.strip()]
    _require(len(items) <= TOPICS_MAX, f"at most {TOPICS_MAX} topics")
    return tuple(_new_topic(item) for item in items)


def _require(holds: bool, allowed: str) -> None:
    if not holds:
        raise EnvironmentRefused(VARIABLE, "topics", allowed)


def _new_topic(item: str) -> NewTopic:
    allowed = f"expected {FORMAT}, not {item[:100]!r}"
    name, *rest = (part.strip() for part in item.split(":", 3))
    _require(is_valid_topic_name(name) and len(rest) in (2, 3), allowed)
    for number in rest[:2]:
        is_count = number.isascii() and number.isdecimal() and len(number) <= len(str(COUNT_MAX))
        _require(is_count and 1 <= int(number) <= COUNT_MAX, allowed)
    configs = _configs(rest[2], allowed) if len(rest) > 2 else ()
    return NewTopic(name, int(rest[0]), int(rest[1]), configs)


def _configs(text: str, allowed: str) -> tuple[str, ...]:
    """The fourth part: a policy, then options of `kafka-topics.sh`, which some files append."""
    # Imported only for a fourth part.
    import shlex

    try:
        words = shlex.split(text.replace("--config=", "--config "))
    except ValueError:
        words = ["--"]
    policy = words.pop(0) if words and not words[0].startswith("--") else ""
    _require(policy in POLICIES, allowed)
    configs = [f"cleanup.policy={policy}"] if policy else []
    while words:
        _require(len(words) > 1 and words[0] == "--config" and "=" in words[1], allowed)
        configs.append(words[1])
        del words[:2]
    return tuple(configs)
