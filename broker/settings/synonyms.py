"""Synonyms: a topic's setting and the broker's, and the same setting in other units.

Of a broker's synonyms, the first that is set takes precedence, level by level.
Source: Kafka's ServerTopicConfigSynonyms and DynamicBrokerConfig.brokerConfigSynonyms.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.settings.definitions import base_name

TOPIC_SYNONYMS: Final[dict[str, str]] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.downconversion.enable": "log.message.downconversion.enable",
    "message.format.version": "log.message.format.version",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.difference.max.ms": "log.message.timestamp.difference.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""A topic's setting -> the broker's setting that is its default; others have none."""

ROLL: Final = ("log.roll.ms", "log.roll.hours")
ROLL_JITTER: Final = ("log.roll.jitter.ms", "log.roll.jitter.hours")
FLUSH_INTERVAL: Final = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
RETENTION: Final = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")

GROUPS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(ROLL, ROLL),
    **dict.fromkeys(ROLL_JITTER, ROLL_JITTER),
    **dict.fromkeys(RETENTION, RETENTION),
    "log.flush.interval.ms": FLUSH_INTERVAL,
}
"""A setting -> all its synonyms, by descending precedence."""


def unit_synonyms(name: str) -> tuple[str, ...]:
    """The synonyms in other units, `name` included, by descending precedence."""
    return GROUPS.get(name, (name,))


def all_synonyms(name: str) -> tuple[str, ...]:
    """The `unit_synonyms`; for a name with a listener's prefix, that name and then the bare one."""
    bare = base_name(name)
    return unit_synonyms(name) if bare == name else (name, bare)
