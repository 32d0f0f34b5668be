"""Settings: transactions and producer ids.

Rows: name, type, default, rule, importance, when it may change, meaning.
Source: Kafka 3.9, KafkaConfig.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.settings.rules import at_least
from odradek.broker.settings.types import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LOW,
    READ_ONLY,
    SHORT,
    Definition,
)

# fmt: off
# A row per setting is read as a table; a line per field is not.
TABLE: Final = (
    Definition("transaction.max.timeout.ms", INT, 900_000, at_least(1), HIGH, READ_ONLY,
        "The maximum transaction timeout that a producer may request."),
    Definition("transactional.id.expiration.ms", INT, 604_800_000, at_least(1), HIGH, READ_ONLY,
        "How long an unused transactional id is remembered."),
    Definition("transaction.state.log.replication.factor", SHORT, 3, at_least(1), HIGH, READ_ONLY,
        "The replication factor of the transaction topic; with fewer live brokers, each of them "
        "gets a replica."),
    Definition("transaction.state.log.num.partitions", INT, 50, at_least(1), HIGH, READ_ONLY,
        "The number of partitions of the transaction topic; it must not change after the topic "
        "is created."),
    Definition("transaction.state.log.min.isr", INT, 2, at_least(1), HIGH, READ_ONLY,
        "The min.insync.replicas of the transaction topic."),
    Definition("transaction.state.log.segment.bytes", INT, 104_857_600, at_least(1), HIGH,
        READ_ONLY,
        "The segment size of the transaction topic."),
    Definition("transaction.state.log.load.buffer.size", INT, 5_242_880, at_least(1), HIGH,
        READ_ONLY,
        "How many bytes are read at once when transactions are loaded."),
    Definition("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000,
        at_least(1), LOW, READ_ONLY,
        "How often the broker checks for transactions that have timed out and were not aborted "
        "then; they are aborted at their time-out unless that fails."),
    Definition("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000,
        at_least(1), LOW, READ_ONLY,
        "How often the broker checks for expired transactional ids."),
    Definition("transaction.partition.verification.enable", BOOLEAN, True, None, LOW, CLUSTER_WIDE,
        "Whether a leader verifies with the coordinator that a partition belongs to a "
        "transaction (KIP-890)."),
    Definition("producer.id.expiration.ms", INT, 86_400_000, at_least(1), LOW, CLUSTER_WIDE,
        "How long a partition remembers an idempotent producer that no longer writes."),
    Definition("producer.id.expiration.check.interval.ms", INT, 600_000, at_least(1), LOW,
        READ_ONLY,
        "How often the broker checks for producers to forget.", is_internal=True),
)
# fmt: on
