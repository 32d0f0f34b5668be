"""Settings: log directories, segments, retention, compaction and flushing.

Rows: name, type, default, rule, importance, when it may change, meaning.
Source: Kafka 3.9, KafkaConfig.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.settings.rules import Between, Shape, at_least, each_of, one_of
from odradek.broker.settings.types import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    DOUBLE,
    DOUBLE_MAX,
    HIGH,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    READ_ONLY,
    STRING,
    Definition,
)

# fmt: off
# A row per setting is read as a table; a line per field is not.
TABLE: Final = (
    Definition("log.dirs", STRING, None, None, HIGH, READ_ONLY,
        "The directories of the logs, separated by commas; log.dir applies when not set."),
    Definition("log.dir", STRING, "/tmp/kafka-logs", None, HIGH, READ_ONLY,
        "The directory of the logs when log.dirs is not set."),
    Definition("log.dir.failure.timeout.ms", LONG, 30_000, at_least(1), LOW, READ_ONLY,
        "KRaft mode only: the broker stops if it cannot report a failed directory to the "
        "controller within this time."),
    Definition("num.partitions", INT, 1, at_least(1), MEDIUM, READ_ONLY,
        "The number of partitions of a topic that is created without one."),
    Definition("num.recovery.threads.per.data.dir", INT, 1, at_least(1), HIGH, CLUSTER_WIDE,
        "The number of threads per log directory for recovery at startup and flushing at "
        "shutdown."),
    Definition("log.segment.bytes", INT, 1_073_741_824, at_least(14), HIGH, CLUSTER_WIDE,
        "The size at which the active segment of a log is closed and a new one is created."),
    Definition("log.roll.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "The age at which the active segment is closed even if it is not full; log.roll.hours "
        "applies when not set."),
    Definition("log.roll.hours", INT, 168, at_least(1), HIGH, READ_ONLY,
        "The age in hours at which the active segment is closed; log.roll.ms takes precedence."),
    Definition("log.roll.jitter.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "The maximum random time subtracted from log.roll.ms, so that segments are not all "
        "closed at once."),
    Definition("log.roll.jitter.hours", INT, 0, at_least(0), HIGH, READ_ONLY,
        "The maximum random number of hours subtracted from the age of closing; "
        "log.roll.jitter.ms takes precedence."),
    Definition("log.retention.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "How long records are retained; -1 for ever; log.retention.minutes applies when not "
        "set."),
    Definition("log.retention.minutes", INT, None, None, HIGH, READ_ONLY,
        "How many minutes records are retained; log.retention.hours applies when not set."),
    Definition("log.retention.hours", INT, 168, None, HIGH, READ_ONLY,
        "How many hours records are retained; log.retention.ms and log.retention.minutes take "
        "precedence."),
    Definition("log.retention.bytes", LONG, -1, None, HIGH, CLUSTER_WIDE,
        "The size of a partition above which old segments are deleted; -1 sets no limit."),
    Definition("log.retention.check.interval.ms", LONG, 300_000, at_least(1), MEDIUM, READ_ONLY,
        "How often the broker checks whether segments can be deleted."),
    Definition("log.initial.task.delay.ms", LONG, 30_000, at_least(0), LOW, READ_ONLY,
        "How long after startup the periodic work on logs begins.", is_internal=True),
    Definition("log.cleanup.policy", LIST, "delete", each_of("compact", "delete"), MEDIUM,
        CLUSTER_WIDE,
        "What is done with old segments: delete, compact, or both."),
    Definition("log.segment.delete.delay.ms", LONG, 60_000, at_least(0), HIGH, CLUSTER_WIDE,
        "How long a deleted file is kept on disk under another name."),
    Definition("log.index.size.max.bytes", INT, 10_485_760, at_least(4), MEDIUM, CLUSTER_WIDE,
        "The maximum size of an index file of a segment."),
    Definition("log.index.interval.bytes", INT, 4096, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How many bytes of records are appended between two entries of the offset index."),
    Definition("log.flush.interval.messages", LONG, LONG_MAX, at_least(1), HIGH, CLUSTER_WIDE,
        "After how many records a partition is flushed to disk."),
    Definition("log.flush.interval.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "How long a record may stay unflushed; log.flush.scheduler.interval.ms applies when not "
        "set."),
    Definition("log.flush.scheduler.interval.ms", LONG, LONG_MAX, None, HIGH, READ_ONLY,
        "How often the broker checks whether a log must be flushed."),
    Definition("log.flush.offset.checkpoint.interval.ms", INT, 60_000, at_least(0), HIGH, READ_ONLY,
        "How often the recovery points of the logs are written to disk."),
    Definition("log.flush.start.offset.checkpoint.interval.ms", INT, 60_000, at_least(0), HIGH,
        READ_ONLY,
        "How often the log start offsets are written to disk."),
    Definition("log.preallocate", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Whether a new segment file is created with its full size."),
    Definition("log.message.format.version", STRING, "3.0-IV1", Shape.PROTOCOL_VERSION, MEDIUM,
        READ_ONLY,
        "Deprecated and without effect: the format of stored records."),
    Definition("log.message.timestamp.type", STRING, "CreateTime",
        one_of("CreateTime", "LogAppendTime"), MEDIUM, CLUSTER_WIDE,
        "Whether the timestamp of a record is its creation time at the producer or its append "
        "time at the broker."),
    Definition("log.message.timestamp.difference.max.ms", LONG, LONG_MAX, at_least(0), MEDIUM,
        CLUSTER_WIDE,
        "Deprecated: the maximum difference between a record's timestamp and the broker's "
        "clock."),
    Definition("log.message.timestamp.before.max.ms", LONG, LONG_MAX, at_least(0), MEDIUM,
        CLUSTER_WIDE,
        "How much earlier than the broker's clock the timestamp of a record may be."),
    Definition("log.message.timestamp.after.max.ms", LONG, LONG_MAX, at_least(0), MEDIUM,
        CLUSTER_WIDE,
        "How much later than the broker's clock the timestamp of a record may be."),
    Definition("log.message.downconversion.enable", BOOLEAN, True, None, LOW, CLUSTER_WIDE,
        "Whether records are converted to an older format for old consumers."),
    Definition("log.cleaner.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Whether compacted topics are cleaned."),
    Definition("log.cleaner.threads", INT, 1, at_least(0), MEDIUM, CLUSTER_WIDE,
        "The number of threads that clean compacted logs."),
    Definition("log.cleaner.io.max.bytes.per.second", DOUBLE, DOUBLE_MAX, None, MEDIUM,
        CLUSTER_WIDE,
        "The maximum number of bytes per second that all cleaning reads and writes."),
    Definition("log.cleaner.dedupe.buffer.size", LONG, 134_217_728, None, MEDIUM, CLUSTER_WIDE,
        "The memory for the offset maps of all cleaner threads."),
    Definition("log.cleaner.io.buffer.size", INT, 524_288, at_least(0), MEDIUM, CLUSTER_WIDE,
        "The memory for the input and output buffers of all cleaner threads."),
    Definition("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, None, MEDIUM, CLUSTER_WIDE,
        "How full the offset map of the cleaner may become, as a share of 1."),
    Definition("log.cleaner.backoff.ms", LONG, 15_000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How long the cleaner waits when no log is due."),
    Definition("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, Between(0, 1), MEDIUM, CLUSTER_WIDE,
        "The share of bytes not yet cleaned above which a log is due for cleaning."),
    Definition("log.cleaner.delete.retention.ms", LONG, 86_400_000, at_least(0), MEDIUM,
        CLUSTER_WIDE,
        "How long a tombstone can be read in a compacted topic."),
    Definition("log.cleaner.min.compaction.lag.ms", LONG, 0, at_least(0), MEDIUM, CLUSTER_WIDE,
        "The minimum time that a record stays in a log without being compacted."),
    Definition("log.cleaner.max.compaction.lag.ms", LONG, LONG_MAX, at_least(1), MEDIUM,
        CLUSTER_WIDE,
        "The maximum time before a record becomes due for compaction."),
    Definition("log.local.retention.ms", LONG, -2, at_least(-2), MEDIUM, CLUSTER_WIDE,
        "How long records of a tiered topic are kept on local disks; -2 applies "
        "log.retention.ms."),
    Definition("log.local.retention.bytes", LONG, -2, at_least(-2), MEDIUM, CLUSTER_WIDE,
        "The size of a tiered partition on local disks; -2 applies log.retention.bytes."),
    Definition("create.topic.policy.class.name", CLASS, None, None, LOW, READ_ONLY,
        "The class that decides whether a topic may be created."),
    Definition("alter.config.policy.class.name", CLASS, None, None, LOW, READ_ONLY,
        "The class that decides whether a setting may be changed."),
    Definition("alter.config.policy.kraft.compatibility.enable", BOOLEAN, False, None, LOW,
        READ_ONLY,
        "KRaft mode only: whether the policy for settings receives all settings or only the "
        "changed ones."),
)
# fmt: on
