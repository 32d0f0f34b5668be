"""Settings: quota windows and metrics.

Rows: name, type, default, rule, importance, when it may change, meaning.
Source: Kafka 3.9, KafkaConfig.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.settings.rules import at_least
from odradek.broker.settings.types import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    LOW,
    READ_ONLY,
    STRING,
    Definition,
)

# fmt: off
# A row per setting is read as a table; a line per field is not.
TABLE: Final = (
    Definition("quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Windows kept for measuring clients against their quotas."),
    Definition("quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of a window for measuring clients."),
    Definition("replication.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Windows kept for measuring throttled replication."),
    Definition("replication.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of a window for measuring throttled replication."),
    Definition("alter.log.dirs.replication.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Windows kept for measuring moves between folders."),
    Definition("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, at_least(1), LOW,
        READ_ONLY,
        "Length of a window for measuring moves between folders."),
    Definition("controller.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Windows kept for measuring changes that clients ask of the controller."),
    Definition("controller.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of a window for measuring changes that clients ask of the controller."),
    Definition("metrics.num.samples", INT, 2, at_least(1), LOW, READ_ONLY,
        "Samples that a metric is reckoned from."),
    Definition("metrics.sample.window.ms", LONG, 30_000, at_least(1), LOW, READ_ONLY,
        "Length of a sample."),
    Definition("metrics.recording.level", STRING, "INFO", None, LOW, READ_ONLY,
        "How much is measured: INFO, DEBUG or TRACE."),
    Definition("metric.reporters", LIST, "", None, LOW, CLUSTER_WIDE,
        "Classes that are told of metrics."),
    Definition("auto.include.jmx.reporter", BOOLEAN, True, None, LOW, READ_ONLY,
        "Deprecated: whether metrics go to JMX although metric.reporters does not name it."),
    Definition("kafka.metrics.reporters", LIST, "", None, LOW, READ_ONLY,
        "Classes that are told of the older kind of metrics."),
    Definition("kafka.metrics.polling.interval.secs", INT, 10, at_least(1), LOW, READ_ONLY,
        "How often the reporters of the older metrics look, in seconds."),
    Definition("telemetry.max.bytes", INT, 1_048_576, at_least(1), LOW, READ_ONLY,
        "Largest batch of client metrics that is accepted (KIP-714)."),
)
# fmt: on
