"""Settings: replication, leaders and the broker's talk with the controller.

Rows: name, type, default, rule, importance, when it may change, meaning.
Source: Kafka 3.9, KafkaConfig.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.settings.rules import Shape, at_least
from odradek.broker.settings.types import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LONG,
    MEDIUM,
    READ_ONLY,
    STRING,
    Definition,
)

# fmt: off
# A row per setting is read as a table; a line per field is not.
TABLE: Final = (
    Definition("default.replication.factor", INT, 1, None, MEDIUM, READ_ONLY,
        "The replication factor of a topic that is created without one."),
    Definition("min.insync.replicas", INT, 1, at_least(1), HIGH, CLUSTER_WIDE,
        "The minimum number of in-sync replicas for a produce request with acks=all to succeed."),
    Definition("unclean.leader.election.enable", BOOLEAN, False, None, HIGH, CLUSTER_WIDE,
        "Whether a replica that is not in sync may become the leader as a last resort, which "
        "loses records."),
    Definition("unclean.leader.election.interval.ms", LONG, 300_000, at_least(1), MEDIUM, READ_ONLY,
        "KRaft mode only: how often partitions without a leader are checked.", is_internal=True),
    Definition("eligible.leader.replicas.enable", BOOLEAN, False, None, HIGH, READ_ONLY,
        "KRaft mode only: whether replicas that were last in sync are remembered as eligible "
        "leaders."),
    Definition("replica.lag.time.max.ms", LONG, 30_000, None, HIGH, READ_ONLY,
        "How long a follower may lag before it is removed from the in-sync replicas."),
    Definition("replica.socket.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY,
        "The network timeout of a follower's requests to its leader."),
    Definition("replica.socket.receive.buffer.bytes", INT, 65_536, None, HIGH, READ_ONLY,
        "The SO_RCVBUF of a follower's connection to its leader."),
    Definition("replica.fetch.max.bytes", INT, 1_048_576, at_least(0), MEDIUM, READ_ONLY,
        "The maximum bytes per partition in a follower's fetch, unless the first batch is "
        "larger."),
    Definition("replica.fetch.wait.max.ms", INT, 500, None, HIGH, READ_ONLY,
        "How long the leader may delay the response to a follower's fetch that finds no new "
        "records."),
    Definition("replica.fetch.min.bytes", INT, 1, None, HIGH, READ_ONLY,
        "How many bytes a follower's fetch waits for, for at most replica.fetch.wait.max.ms."),
    Definition("replica.fetch.response.max.bytes", INT, 10_485_760, at_least(0), MEDIUM, READ_ONLY,
        "The maximum bytes in the response to a follower's fetch, unless the first batch is "
        "larger."),
    Definition("replica.fetch.backoff.ms", INT, 1000, at_least(0), MEDIUM, READ_ONLY,
        "How long a follower waits after an error before it fetches a partition again."),
    Definition("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, None, HIGH, READ_ONLY,
        "How often the high watermarks are written to disk."),
    Definition("replica.selector.class", STRING, None, None, MEDIUM, READ_ONLY,
        "The class that selects the replica a consumer fetches from; the leader when not set."),
    Definition("num.replica.fetchers", INT, 1, None, HIGH, CLUSTER_WIDE,
        "The number of connections over which a follower fetches from each leader."),
    Definition("num.replica.alter.log.dirs.threads", INT, None, None, HIGH, READ_ONLY,
        "The number of threads that move replicas between log directories; one per directory "
        "when not set."),
    Definition("controller.socket.timeout.ms", INT, 30_000, None, MEDIUM, READ_ONLY,
        "The network timeout of the controller's requests to brokers."),
    Definition("auto.leader.rebalance.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether leadership returns to the preferred replicas automatically."),
    Definition("leader.imbalance.per.broker.percentage", INT, 10, None, HIGH, READ_ONLY,
        "The percentage of a broker's preferred partitions led elsewhere above which leadership "
        "is moved back."),
    Definition("leader.imbalance.check.interval.seconds", LONG, 300, at_least(1), HIGH, READ_ONLY,
        "How often the balance of leaders is checked."),
    Definition("inter.broker.protocol.version", STRING, "3.9-IV0", Shape.PROTOCOL_VERSION, MEDIUM,
        READ_ONLY,
        "The protocol version between brokers; it is raised at the end of a rolling upgrade."),
    Definition("fetch.purgatory.purge.interval.requests", INT, 1000, None, MEDIUM, READ_ONLY,
        "How many completed fetches may stay in the purgatory before it is purged."),
    Definition("producer.purgatory.purge.interval.requests", INT, 1000, None, MEDIUM, READ_ONLY,
        "How many completed produce requests may stay in the purgatory before it is purged."),
    Definition("delete.records.purgatory.purge.interval.requests", INT, 1, None, MEDIUM, READ_ONLY,
        "How many completed DeleteRecords requests may stay in the purgatory before it is "
        "purged."),
)
# fmt: on
