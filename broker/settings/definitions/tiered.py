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
        "Class that reads and writes remote storage."),
    Definition("remote.log.storage.manager.class.path", STRING, None, None, MEDIUM, READ_ONLY,
        "Where the class for remote storage is found."),
    Definition("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", Shape.NOT_EMPTY,
        MEDIUM, READ_ONLY,
        "Prefix of the settings that are handed to the class for remote storage."),
    Definition("remote.log.metadata.manager.class.name", STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        Shape.NOT_EMPTY, MEDIUM, READ_ONLY,
        "Class that keeps account of remote segments."),
    Definition("remote.log.metadata.manager.class.path", STRING, None, None, MEDIUM, READ_ONLY,
        "Where the class that keeps account of remote segments is found."),
    Definition("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", Shape.NOT_EMPTY,
        MEDIUM, READ_ONLY,
        "Prefix of the settings that are handed to the class that keeps account of remote "
        "segments."),
    Definition("remote.log.metadata.manager.listener.name", STRING, None, Shape.NOT_EMPTY, MEDIUM,
        READ_ONLY,
        "Listener over which the account of remote segments is reached."),
    Definition("remote.log.metadata.custom.metadata.max.bytes", INT, 128, at_least(0), LOW,
        READ_ONLY,
        "Bytes that a remote storage may attach to a segment's account."),
    Definition("remote.log.index.file.cache.total.size.bytes", LONG, 1_073_741_824, at_least(1),
        LOW, CLUSTER_WIDE,
        "Bytes on disk for indexes fetched from remote storage."),
    Definition("remote.log.manager.thread.pool.size", INT, 10, at_least(1), MEDIUM, READ_ONLY,
        "Threads that copy segments to remote storage and look after them."),
    Definition("remote.log.manager.copier.thread.pool.size", INT, -1, MinusOneOr(1, None), MEDIUM,
        READ_ONLY,
        "Threads that copy segments; -1 takes remote.log.manager.thread.pool.size."),
    Definition("remote.log.manager.expiration.thread.pool.size", INT, -1, MinusOneOr(1, None),
        MEDIUM, READ_ONLY,
        "Threads that delete expired remote segments; -1 takes "
        "remote.log.manager.thread.pool.size."),
    Definition("remote.log.manager.task.interval.ms", LONG, 30_000, at_least(1), LOW, READ_ONLY,
        "How often segments are looked for that can be copied or deleted."),
    Definition("remote.log.manager.task.retry.backoff.ms", LONG, 500, at_least(1), LOW, READ_ONLY,
        "First pause after a failure in remote storage.", is_internal=True),
    Definition("remote.log.manager.task.retry.backoff.max.ms", LONG, 30_000, at_least(1), LOW,
        READ_ONLY,
        "Longest pause after repeated failures in remote storage.", is_internal=True),
    Definition("remote.log.manager.task.retry.jitter", DOUBLE, 0.2, Between(0, 0.5), LOW, READ_ONLY,
        "Share by which a pause after a failure varies by chance.", is_internal=True),
    Definition("remote.log.manager.copy.max.bytes.per.second", LONG, LONG_MAX, at_least(1), MEDIUM,
        CLUSTER_WIDE,
        "Bytes per second that may be copied to remote storage."),
    Definition("remote.log.manager.copy.quota.window.num", INT, 11, at_least(1), MEDIUM, READ_ONLY,
        "Windows kept for measuring the rate of copying."),
    Definition("remote.log.manager.copy.quota.window.size.seconds", INT, 1, at_least(1), MEDIUM,
        READ_ONLY,
        "Length of a window for measuring the rate of copying."),
    Definition("remote.log.manager.fetch.max.bytes.per.second", LONG, LONG_MAX, at_least(1),
        MEDIUM, CLUSTER_WIDE,
        "Bytes per second that may be read from remote storage."),
    Definition("remote.log.manager.fetch.quota.window.num", INT, 11, at_least(1), MEDIUM, READ_ONLY,
        "Windows kept for measuring the rate of remote reading."),
    Definition("remote.log.manager.fetch.quota.window.size.seconds", INT, 1, at_least(1), MEDIUM,
        READ_ONLY,
        "Length of a window for measuring the rate of remote reading."),
    Definition("remote.log.reader.threads", INT, 10, at_least(1), MEDIUM, READ_ONLY,
        "Threads that read from remote storage."),
    Definition("remote.log.reader.max.pending.tasks", INT, 100, at_least(1), MEDIUM, READ_ONLY,
        "Reads from remote storage that may wait; further ones are refused."),
    Definition("remote.fetch.max.wait.ms", INT, 500, at_least(1), MEDIUM, CLUSTER_WIDE,
        "How long a fetch waits for remote storage before it is answered."),
)
# fmt: on
