"""The topic that `odradek topics --create` and `--alter` specify on the command line.

All checks here run before the first request.
Source: Kafka 3.9's TopicCommand (CommandTopicPartition, parseReplicaAssignment,
parseTopicConfigsToBeAdded) and LogConfig.validate.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from odradek.tools.errors import ToolError
from odradek.tools.options import Options, parse_integer

REPLICATION_FACTOR_MAX: Final = 32_767
COLLISIONS: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') "
    "could collide. To avoid issues it is best to use either, but not both."
)
FORMAT_VERSION: Final = "message.format.version"
LAGS: Final = ("min.compaction.lag.ms", "max.compaction.lag.ms")


class TopicSpec(NamedTuple):
    """A topic as the command line specifies it; None and empty: the cluster's default."""

    name: str
    partitions: int | None
    replication_factor: int | None
    assignment: list[list[int]]
    """Brokers by partition; empty: the cluster assigns replicas."""
    configs: dict[str, str]


def read_spec(options: Options) -> TopicSpec:
    """Read the options; the bounds of numbers are not checked yet.

    raises  OptionsError, ToolError
    """
    return TopicSpec(
        options.required("topic"),
        options.number("partitions"),
        options.number("replication-factor"),
        parse_assignment(options.value("replica-assignment") or ""),
        parse_configs(options.values("config")),
    )


def check_new(spec: TopicSpec) -> None:
    """Check the bounds of a new topic.

    raises  ToolError
    """
    if spec.replication_factor is not None and not (
        1 <= spec.replication_factor <= REPLICATION_FACTOR_MAX
    ):
        raise ToolError(
            f"The replication factor must be between 1 and {REPLICATION_FACTOR_MAX} inclusive"
        )
    if spec.partitions is not None and spec.partitions < 1:
        raise ToolError("The partitions must be greater than 0")
    if not spec.name:
        raise ToolError(f"The given topic name '{spec.name}' cannot be represented in a request.")


def parse_assignment(text: str) -> list[list[int]]:
    """Parse `1:2,2:3` into the replicas of partitions 0 and 1.

    raises  ToolError for an invalid number, a repeated broker, and lists of different lengths
    """
    assignment: list[list[int]] = []
    for part in _split(text, ",") if text else []:
        brokers = [parse_integer(word.strip()) for word in _split(part, ":")]
        repeated = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if repeated:
            raise ToolError(
                "Partition replica lists may not contain duplicate entries: "
                + ",".join(map(str, repeated))
            )
        assignment.append(brokers)
        if len(brokers) != len(assignment[0]):
            raise ToolError(
                f"Partition {len(assignment) - 1} has different replication factor: {brokers}"
            )
    return assignment


def _split(text: str, separator: str) -> list[str]:
    """Split as Java does: trailing empty words are dropped, an empty text is one word."""
    words = re.split(separator, text, flags=re.ASCII)
    while len(words) > 1 and not words[-1]:
        words.pop()
    return words


def parse_configs(texts: list[str]) -> dict[str, str]:
    """Parse `name=value` texts into topic settings; of two with one name the last one counts.

    raises  ToolError for a missing `=` or an empty value (as in Kafka), an unknown name and an
            invalid value
    """
    configs: dict[str, str] = {}
    for text in texts:
        words = _split(text, r"\s*=\s*")
        if len(words) != 2:
            raise ToolError(
                "requirement failed: Invalid topic config: all configs to be added must be in the "
                'format "key=val".'
            )
        configs[words[0].strip()] = words[1].strip()
    if configs:
        _check_configs(configs)
    if FORMAT_VERSION in configs:
        print(
            f"WARNING: The configuration {FORMAT_VERSION}={configs[FORMAT_VERSION]} is specified. "
            "This configuration will be ignored if the version is newer than the "
            "inter.broker.protocol.version specified in the broker or if the "
            "inter.broker.protocol.version is 3.0 or newer. This configuration is deprecated and "
            "it will be removed in Apache Kafka 4.0."
        )
    return configs


def _check_configs(configs: dict[str, str]) -> None:
    from odradek.broker.settings.definitions import TOPIC
    from odradek.broker.settings.types import InvalidValueError, parse_value

    for name in configs:
        if name not in TOPIC:
            raise ToolError(f"Unknown topic config name: {name}")
    try:
        values = {name: parse_value(TOPIC[name], text) for name, text in configs.items()}
    except InvalidValueError as error:
        raise ToolError(str(error)) from error
    low, high = (values.get(name, TOPIC[name].default) for name in LAGS)
    assert isinstance(low, int), "a lag is a number"
    assert isinstance(high, int), "a lag is a number"
    if low > high:
        raise ToolError(f"conflict topic config setting {LAGS[0]} ({low}) > {LAGS[1]} ({high})")
