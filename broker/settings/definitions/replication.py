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
        "Replicas of a topic that is created without a number."),
    Definition("min.insync.replicas", INT, 1, at_least(1), HIGH, CLUSTER_WIDE,
        "Replicas that must have a record before acks=all is answered."),
    Definition("unclean.leader.election.enable", BOOLEAN, False, None, HIGH, CLUSTER_WIDE,
        "Whether a replica that is behind may lead when no other is left, at the price of "
        "lost records."),
    Definition("unclean.leader.election.interval.ms", LONG, 300_000, at_least(1), MEDIUM, READ_ONLY,
        "KRaft mode only: how often partitions without a leader are looked at.", is_internal=True),
    Definition("eligible.leader.replicas.enable", BOOLEAN, False, None, HIGH, READ_ONLY,
        "KRaft mode only: whether replicas that were last in sync are remembered as fit to lead."),
    Definition("replica.lag.time.max.ms", LONG, 30_000, None, HIGH, READ_ONLY,
        "A follower that has not caught up for this long leaves the in-sync replicas."),
    Definition("replica.socket.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY,
        "How long a follower waits on the network for its leader."),
    Definition("replica.socket.receive.buffer.bytes", INT, 65_536, None, HIGH, READ_ONLY,
        "SO_RCVBUF of a follower's connection to its leader."),
    Definition("replica.fetch.max.bytes", INT, 1_048_576, at_least(0), MEDIUM, READ_ONLY,
        "Bytes per partition that a follower asks for, unless a single batch is larger."),
    Definition("replica.fetch.wait.max.ms", INT, 500, None, HIGH, READ_ONLY,
        "How long a leader may hold a follower's fetch that finds nothing new."),
    Definition("replica.fetch.min.bytes", INT, 1, None, HIGH, READ_ONLY,
        "Bytes that a follower's fetch waits for, up to replica.fetch.wait.max.ms."),
    Definition("replica.fetch.response.max.bytes", INT, 10_485_760, at_least(0), MEDIUM, READ_ONLY,
        "Bytes that a follower asks for in one fetch, unless a single batch is larger."),
    Definition("replica.fetch.backoff.ms", INT, 1000, at_least(0), MEDIUM, READ_ONLY,
        "How long a follower leaves a partition alone after an error."),
    Definition("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, None, HIGH, READ_ONLY,
        "How often high watermarks are written down."),
    Definition("replica.selector.class", STRING, None, None, MEDIUM, READ_ONLY,
        "Class that chooses which replica a consumer reads from; always the leader when not set."),
    Definition("num.replica.fetchers", INT, 1, None, HIGH, CLUSTER_WIDE,
        "Connections per leader over which a broker follows."),
    Definition("num.replica.alter.log.dirs.threads", INT, None, None, HIGH, READ_ONLY,
        "Threads that move replicas between folders; as many as folders when not set."),
    Definition("controller.socket.timeout.ms", INT, 30_000, None, MEDIUM, READ_ONLY,
        "How long the controller waits on the network for a broker."),
    Definition("auto.leader.rebalance.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether leadership returns to the preferred replicas by itself."),
    Definition("leader.imbalance.per.broker.percentage", INT, 10, None, HIGH, READ_ONLY,
        "Percentage of a broker's preferred partitions led elsewhere at which leadership is "
        "given back."),
    Definition("leader.imbalance.check.interval.seconds", LONG, 300, at_least(1), HIGH, READ_ONLY,
        "How often the spread of leaders is looked at."),
    Definition("inter.broker.protocol.version", STRING, "3.9-IV0", Shape.PROTOCOL_VERSION, MEDIUM,
        READ_ONLY,
        "Which version brokers speak among themselves; stays behind during a rolling upgrade."),
    Definition("fetch.purgatory.purge.interval.requests", INT, 1000, None, MEDIUM, READ_ONLY,
        "Waiting fetches between two clean-ups of those already answered."),
    Definition("producer.purgatory.purge.interval.requests", INT, 1000, None, MEDIUM, READ_ONLY,
        "Waiting produces between two clean-ups of those already answered."),
    Definition("delete.records.purgatory.purge.interval.requests", INT, 1, None, MEDIUM, READ_ONLY,
        "Waiting deletions of records between two clean-ups of those already answered."),
)
# fmt: on
