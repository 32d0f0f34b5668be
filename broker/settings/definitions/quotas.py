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
        "The number of windows in which the rates of clients are measured for quotas."),
    Definition("quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "The length of a window in which the rates of clients are measured."),
    Definition("replication.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "The number of windows in which throttled replication is measured."),
    Definition("replication.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "The length of a window in which throttled replication is measured."),
    Definition("alter.log.dirs.replication.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "The number of windows in which moves between log directories are measured."),
    Definition("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, at_least(1), LOW,
        READ_ONLY,
        "The length of a window in which moves between log directories are measured."),
    Definition("controller.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "The number of windows in which clients' changes of topics are measured for quotas."),
    Definition("controller.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "The length of a window in which clients' changes of topics are measured."),
    Definition("metrics.num.samples", INT, 2, at_least(1), LOW, READ_ONLY,
        "The number of samples from which a metric is computed."),
    Definition("metrics.sample.window.ms", LONG, 30_000, at_least(1), LOW, READ_ONLY,
        "The length of a sample."),
    Definition("metrics.recording.level", STRING, "INFO", None, LOW, READ_ONLY,
        "The detail of metrics: INFO, DEBUG or TRACE."),
    Definition("metric.reporters", LIST, "", None, LOW, CLUSTER_WIDE,
        "The classes that metrics are reported to."),
    Definition("auto.include.jmx.reporter", BOOLEAN, True, None, LOW, READ_ONLY,
        "Deprecated: whether metrics are reported to JMX even if metric.reporters does not name "
        "its reporter."),
    Definition("kafka.metrics.reporters", LIST, "", None, LOW, READ_ONLY,
        "The classes that the older kind of metrics are reported to."),
    Definition("kafka.metrics.polling.interval.secs", INT, 10, at_least(1), LOW, READ_ONLY,
        "How often the reporters of the older metrics read them, in seconds."),
    Definition("telemetry.max.bytes", INT, 1_048_576, at_least(1), LOW, READ_ONLY,
        "The maximum size of a batch of client metrics (KIP-714)."),
)
# fmt: on
