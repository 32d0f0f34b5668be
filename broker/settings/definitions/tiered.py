"""Settings: tiered storage (KIP-405).

Rows: name, type, default, rule, importance, when it may change, meaning.
Source: Kafka 3.9, KafkaConfig.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.settings.rules import Between, MinusOneOr, Shape, at_least
from odradek.broker.settings.types import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
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
    Definition("remote.log.storage.system.enable", BOOLEAN, False, None, MEDIUM, READ_ONLY,
        "Whether topics may move old segments to remote storage."),
    Definition("remote.log.storage.manager.class.name", STRING, None, Shape.NOT_EMPTY, MEDIUM,
        READ_ONLY,
        "The class that reads and writes remote storage."),
    Definition("remote.log.storage.manager.class.path", STRING, None, None, MEDIUM, READ_ONLY,
        "The class path of the class for remote storage."),
    Definition("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", Shape.NOT_EMPTY,
        MEDIUM, READ_ONLY,
        "The prefix of the settings that are passed to the class for remote storage."),
    Definition("remote.log.metadata.manager.class.name", STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        Shape.NOT_EMPTY, MEDIUM, READ_ONLY,
        "The class that stores the metadata of remote segments."),
    Definition("remote.log.metadata.manager.class.path", STRING, None, None, MEDIUM, READ_ONLY,
        "The class path of the class that stores the metadata of remote segments."),
    Definition("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", Shape.NOT_EMPTY,
        MEDIUM, READ_ONLY,
        "The prefix of the settings that are passed to the class for the metadata of remote "
        "segments."),
    Definition("remote.log.metadata.manager.listener.name", STRING, None, Shape.NOT_EMPTY, MEDIUM,
        READ_ONLY,
        "The listener over which the metadata of remote segments is read and written."),
    Definition("remote.log.metadata.custom.metadata.max.bytes", INT, 128, at_least(0), LOW,
        READ_ONLY,
        "The maximum size of the metadata that remote storage may add to a segment's."),
    Definition("remote.log.index.file.cache.total.size.bytes", LONG, 1_073_741_824, at_least(1),
        LOW, CLUSTER_WIDE,
        "The disk space for indexes fetched from remote storage."),
    Definition("remote.log.manager.thread.pool.size", INT, 10, at_least(1), MEDIUM, READ_ONLY,
        "The number of threads that manage remote segments."),
    Definition("remote.log.manager.copier.thread.pool.size", INT, -1, MinusOneOr(1, None), MEDIUM,
        READ_ONLY,
        "The number of threads that copy segments; -1 applies "
        "remote.log.manager.thread.pool.size."),
    Definition("remote.log.manager.expiration.thread.pool.size", INT, -1, MinusOneOr(1, None),
        MEDIUM, READ_ONLY,
        "The number of threads that delete expired remote segments; -1 applies "
        "remote.log.manager.thread.pool.size."),
    Definition("remote.log.manager.task.interval.ms", LONG, 30_000, at_least(1), LOW, READ_ONLY,
        "How often the broker checks for segments to copy or delete."),
    Definition("remote.log.manager.task.retry.backoff.ms", LONG, 500, at_least(1), LOW, READ_ONLY,
        "How long to wait before the first retry after a failure of remote storage.",
        is_internal=True),
    Definition("remote.log.manager.task.retry.backoff.max.ms", LONG, 30_000, at_least(1), LOW,
        READ_ONLY,
        "The maximum time to wait before a retry after failures of remote storage.",
        is_internal=True),
    Definition("remote.log.manager.task.retry.jitter", DOUBLE, 0.2, Between(0, 0.5), LOW, READ_ONLY,
        "The random share by which the wait before a retry varies.", is_internal=True),
    Definition("remote.log.manager.copy.max.bytes.per.second", LONG, LONG_MAX, at_least(1), MEDIUM,
        CLUSTER_WIDE,
        "The maximum number of bytes per second copied to remote storage."),
    Definition("remote.log.manager.copy.quota.window.num", INT, 11, at_least(1), MEDIUM, READ_ONLY,
        "The number of windows in which the rate of copying is measured."),
    Definition("remote.log.manager.copy.quota.window.size.seconds", INT, 1, at_least(1), MEDIUM,
        READ_ONLY,
        "The length of a window in which the rate of copying is measured."),
    Definition("remote.log.manager.fetch.max.bytes.per.second", LONG, LONG_MAX, at_least(1),
        MEDIUM, CLUSTER_WIDE,
        "The maximum number of bytes per second read from remote storage."),
    Definition("remote.log.manager.fetch.quota.window.num", INT, 11, at_least(1), MEDIUM, READ_ONLY,
        "The number of windows in which the rate of remote reads is measured."),
    Definition("remote.log.manager.fetch.quota.window.size.seconds", INT, 1, at_least(1), MEDIUM,
        READ_ONLY,
        "The length of a window in which the rate of remote reads is measured."),
    Definition("remote.log.reader.threads", INT, 10, at_least(1), MEDIUM, READ_ONLY,
        "The number of threads that read from remote storage."),
    Definition("remote.log.reader.max.pending.tasks", INT, 100, at_least(1), MEDIUM, READ_ONLY,
        "How many reads from remote storage may wait; further ones are rejected."),
    Definition("remote.fetch.max.wait.ms", INT, 500, at_least(1), MEDIUM, CLUSTER_WIDE,
        "How long a fetch waits for remote storage before its response is sent."),
)
# fmt: on
