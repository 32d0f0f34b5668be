"""Settings: a topic's own settings.

Rows: name, type, default, rule, importance, when it may change, meaning.
Source: Kafka 3.9, LogConfig and TopicConfig.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.settings.rules import Between, MinusOneOr, Shape, at_least, each_of, one_of
from odradek.broker.settings.types import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    STRING,
    Definition,
)

# fmt: off
# A row per setting is read as a table; a line per field is not.
TABLE: Final = (
    Definition("cleanup.policy", LIST, "delete", each_of("compact", "delete"), MEDIUM, CLUSTER_WIDE,
        "What is done with old segments: delete, compact, or both."),
    Definition("compression.type", STRING, "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), MEDIUM, CLUSTER_WIDE,
        "The compression of stored records: a codec, uncompressed, or producer to keep the "
        "producer's."),
    Definition("compression.gzip.level", INT, -1, MinusOneOr(1, 9), MEDIUM, CLUSTER_WIDE,
        "The level at which the broker compresses with gzip; -1 is the library's default."),
    Definition("compression.lz4.level", INT, 9, Between(1, 17), MEDIUM, CLUSTER_WIDE,
        "The level at which the broker compresses with lz4."),
    Definition("compression.zstd.level", INT, 3, Between(-131_072, 22), MEDIUM, CLUSTER_WIDE,
        "The level at which the broker compresses with zstd."),
    Definition("delete.retention.ms", LONG, 86_400_000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How long a tombstone can be read in a compacted topic."),
    Definition("file.delete.delay.ms", LONG, 60_000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How long a deleted file is kept on disk under another name."),
    Definition("flush.messages", LONG, LONG_MAX, at_least(1), MEDIUM, CLUSTER_WIDE,
        "After how many records a partition is flushed to disk."),
    Definition("flush.ms", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How long a record may stay unflushed."),
    Definition("index.interval.bytes", INT, 4096, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How many bytes of records are appended between two entries of the offset index."),
    Definition("max.compaction.lag.ms", LONG, LONG_MAX, at_least(1), MEDIUM, CLUSTER_WIDE,
        "The maximum time before a record becomes due for compaction."),
    Definition("min.compaction.lag.ms", LONG, 0, at_least(0), MEDIUM, CLUSTER_WIDE,
        "The minimum time that a record stays in a log without being compacted."),
    Definition("max.message.bytes", INT, 1_048_588, at_least(0), MEDIUM, CLUSTER_WIDE,
        "The maximum size of a record batch, after compression."),
    Definition("message.downconversion.enable", BOOLEAN, True, None, LOW, CLUSTER_WIDE,
        "Whether records are converted to an older format for old consumers."),
    Definition("message.format.version", STRING, "3.0-IV1", Shape.PROTOCOL_VERSION, MEDIUM,
        CLUSTER_WIDE,
        "Deprecated and without effect: the format of stored records."),
    Definition("message.timestamp.type", STRING, "CreateTime",
        one_of("CreateTime", "LogAppendTime"), MEDIUM, CLUSTER_WIDE,
        "Whether the timestamp of a record is its creation time at the producer or its append "
        "time at the broker."),
    Definition("message.timestamp.difference.max.ms", LONG, LONG_MAX, at_least(0), MEDIUM,
        CLUSTER_WIDE,
        "Deprecated: the maximum difference between a record's timestamp and the broker's "
        "clock."),
    Definition("message.timestamp.before.max.ms", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How much earlier than the broker's clock the timestamp of a record may be."),
    Definition("message.timestamp.after.max.ms", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How much later than the broker's clock the timestamp of a record may be."),
    Definition("min.cleanable.dirty.ratio", DOUBLE, 0.5, Between(0, 1), MEDIUM, CLUSTER_WIDE,
        "The share of bytes not yet cleaned above which a log is due for cleaning."),
    Definition("min.insync.replicas", INT, 1, at_least(1), MEDIUM, CLUSTER_WIDE,
        "The minimum number of in-sync replicas for a produce request with acks=all to succeed."),
    Definition("preallocate", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Whether a new segment file is created with its full size."),
    Definition("retention.bytes", LONG, -1, None, MEDIUM, CLUSTER_WIDE,
        "The size of a partition above which old segments are deleted; -1 sets no limit."),
    Definition("retention.ms", LONG, 604_800_000, at_least(-1), MEDIUM, CLUSTER_WIDE,
        "How long records are retained; -1 for ever."),
    Definition("segment.bytes", INT, 1_073_741_824, at_least(14), MEDIUM, CLUSTER_WIDE,
        "The size at which the active segment of a log is closed and a new one is created."),
    Definition("segment.index.bytes", INT, 10_485_760, at_least(4), MEDIUM, CLUSTER_WIDE,
        "The maximum size of an index file of a segment."),
    Definition("segment.jitter.ms", LONG, 0, at_least(0), MEDIUM, CLUSTER_WIDE,
        "The maximum random time subtracted from segment.ms, so that segments are not all "
        "closed at once."),
    Definition("segment.ms", LONG, 604_800_000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "The age at which the active segment is closed even if it is not full."),
    Definition("unclean.leader.election.enable", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Whether a replica that is not in sync may become the leader as a last resort, which "
        "loses records."),
    Definition("leader.replication.throttled.replicas", LIST, "", Shape.THROTTLED_REPLICAS, MEDIUM,
        CLUSTER_WIDE,
        "The replicas whose leaders are throttled, as partition:broker pairs, or * for all."),
    Definition("follower.replication.throttled.replicas", LIST, "", Shape.THROTTLED_REPLICAS,
        MEDIUM, CLUSTER_WIDE,
        "The replicas that are throttled as followers, as partition:broker pairs, or * for all."),
    Definition("remote.storage.enable", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Whether old segments move to remote storage."),
    Definition("remote.log.copy.disable", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Whether copying segments to remote storage is disabled."),
    Definition("remote.log.delete.on.disable", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Whether remote segments are deleted when remote storage is disabled."),
    Definition("local.retention.ms", LONG, -2, at_least(-2), MEDIUM, CLUSTER_WIDE,
        "How long records of a tiered topic are kept on local disks; -2 applies retention.ms."),
    Definition("local.retention.bytes", LONG, -2, at_least(-2), MEDIUM, CLUSTER_WIDE,
        "The size of a tiered partition on local disks; -2 applies retention.bytes."),
)
# fmt: on
