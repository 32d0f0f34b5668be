"""Settings: ZooKeeper and, refused or without effect here, KRaft.

Rows: name, type, default, rule, importance, when it may change, meaning.
Source: Kafka 3.9, KafkaConfig.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.settings.rules import at_least, each_of
from odradek.broker.settings.types import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    READ_ONLY,
    STRING,
    Definition,
)

# fmt: off
# A row per setting is read as a table; a line per field is not.
TABLE: Final = (
    Definition("zookeeper.connect", STRING, None, None, HIGH, READ_ONLY,
        "The ZooKeeper servers as host:port separated by commas, with an optional path at the "
        "end."),
    Definition("zookeeper.session.timeout.ms", INT, 18_000, None, HIGH, READ_ONLY,
        "After how long without a heartbeat ZooKeeper ends the broker's session."),
    Definition("zookeeper.connection.timeout.ms", INT, None, None, HIGH, READ_ONLY,
        "How long to wait for a connection to ZooKeeper; zookeeper.session.timeout.ms applies "
        "when not set."),
    Definition("zookeeper.max.in.flight.requests", INT, 10, at_least(1), HIGH, READ_ONLY,
        "How many requests to ZooKeeper may be in flight before further ones wait."),
    Definition("zookeeper.set.acl", BOOLEAN, False, None, HIGH, READ_ONLY,
        "Whether nodes in ZooKeeper are created with ACLs."),
    Definition("zookeeper.clientCnxnSocket", STRING, None, None, MEDIUM, READ_ONLY,
        "The Java class of the connection to ZooKeeper; TLS needs the Netty one."),
    Definition("zookeeper.ssl.client.enable", BOOLEAN, False, None, MEDIUM, READ_ONLY,
        "Whether connections to ZooKeeper use TLS."),
    Definition("zookeeper.ssl.keystore.location", STRING, None, None, MEDIUM, READ_ONLY,
        "The file with the key and certificate for connections to ZooKeeper."),
    Definition("zookeeper.ssl.keystore.password", PASSWORD, None, None, MEDIUM, READ_ONLY,
        "The password of the key store for ZooKeeper."),
    Definition("zookeeper.ssl.keystore.type", STRING, None, None, MEDIUM, READ_ONLY,
        "The format of the key store for ZooKeeper; by the file's extension when not set."),
    Definition("zookeeper.ssl.truststore.location", STRING, None, None, MEDIUM, READ_ONLY,
        "The file with the certificates trusted for ZooKeeper."),
    Definition("zookeeper.ssl.truststore.password", PASSWORD, None, None, MEDIUM, READ_ONLY,
        "The password of the trust store for ZooKeeper."),
    Definition("zookeeper.ssl.truststore.type", STRING, None, None, MEDIUM, READ_ONLY,
        "The format of the trust store for ZooKeeper; by the file's extension when not set."),
    Definition("zookeeper.ssl.protocol", STRING, "TLSv1.2", None, LOW, READ_ONLY,
        "The TLS version for connections to ZooKeeper."),
    Definition("zookeeper.ssl.enabled.protocols", LIST, None, None, LOW, READ_ONLY,
        "The TLS versions enabled for connections to ZooKeeper."),
    Definition("zookeeper.ssl.cipher.suites", LIST, None, None, LOW, READ_ONLY,
        "The cipher suites enabled for connections to ZooKeeper."),
    Definition("zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS", None, LOW,
        READ_ONLY,
        "How ZooKeeper's host name is verified by its certificate; empty disables it."),
    Definition("zookeeper.ssl.crl.enable", BOOLEAN, False, None, LOW, READ_ONLY,
        "Whether revocation lists are checked for ZooKeeper's certificate."),
    Definition("zookeeper.ssl.ocsp.enable", BOOLEAN, False, None, LOW, READ_ONLY,
        "Whether OCSP is used to check ZooKeeper's certificate."),
    Definition("zookeeper.metadata.migration.enable", BOOLEAN, False, None, HIGH, READ_ONLY,
        "Whether the cluster migrates from ZooKeeper to KRaft."),
    Definition("zookeeper.metadata.migration.min.batch.size", INT, 200, at_least(1), MEDIUM,
        READ_ONLY,
        "The number of records per batch while a cluster migrates to KRaft.", is_internal=True),
    Definition("process.roles", LIST, "", each_of("broker", "controller"), HIGH, READ_ONLY,
        "KRaft mode only: whether the node is a broker, a controller or both; empty selects "
        "ZooKeeper mode."),
    Definition("controller.listener.names", STRING, None, None, HIGH, READ_ONLY,
        "KRaft mode only: the listeners of the controllers."),
    Definition("controller.quorum.voters", LIST, "", None, HIGH, READ_ONLY,
        "KRaft mode only: the controllers as id@host:port."),
    Definition("controller.quorum.bootstrap.servers", LIST, "", None, HIGH, READ_ONLY,
        "KRaft mode only: the addresses at which the controllers are found."),
    Definition("controller.quorum.election.timeout.ms", INT, 1000, None, HIGH, READ_ONLY,
        "KRaft mode only: how long without a leader a controller waits before it calls an "
        "election."),
    Definition("controller.quorum.election.backoff.max.ms", INT, 1000, None, HIGH, READ_ONLY,
        "KRaft mode only: the maximum time to wait before another election."),
    Definition("controller.quorum.fetch.timeout.ms", INT, 2000, None, HIGH, READ_ONLY,
        "KRaft mode only: how long a voter waits for a successful fetch before it becomes a "
        "candidate."),
    Definition("controller.quorum.append.linger.ms", INT, 25, None, MEDIUM, READ_ONLY,
        "KRaft mode only: how long the leader collects writes before it appends them."),
    Definition("controller.quorum.request.timeout.ms", INT, 2000, None, MEDIUM, READ_ONLY,
        "KRaft mode only: how long a controller waits for a response."),
    Definition("controller.quorum.retry.backoff.ms", INT, 20, None, LOW, READ_ONLY,
        "KRaft mode only: how long to wait before a failed request is sent again."),
    Definition("broker.heartbeat.interval.ms", INT, 2000, None, MEDIUM, READ_ONLY,
        "KRaft mode only: the time between a broker's heartbeats."),
    Definition("broker.session.timeout.ms", INT, 9000, None, MEDIUM, READ_ONLY,
        "KRaft mode only: after how long without a heartbeat a broker's session ends."),
    Definition("initial.broker.registration.timeout.ms", INT, 60_000, None, MEDIUM, READ_ONLY,
        "KRaft mode only: how long a starting broker tries to register."),
    Definition("metadata.log.dir", STRING, None, None, HIGH, READ_ONLY,
        "KRaft mode only: the directory of the metadata log; the first of log.dirs when not "
        "set."),
    Definition("metadata.log.max.record.bytes.between.snapshots", LONG, 20_971_520, at_least(1),
        HIGH, READ_ONLY,
        "KRaft mode only: after how many bytes of records a snapshot is created."),
    Definition("metadata.log.max.snapshot.interval.ms", LONG, 3_600_000, at_least(0), HIGH,
        READ_ONLY,
        "KRaft mode only: the maximum time between two snapshots."),
    Definition("metadata.log.segment.bytes", INT, 1_073_741_824, at_least(12), HIGH, READ_ONLY,
        "KRaft mode only: the maximum size of a segment of the metadata log."),
    Definition("metadata.log.segment.min.bytes", INT, 8_388_608, at_least(12), HIGH, READ_ONLY,
        "KRaft mode only: the smallest allowed metadata.log.segment.bytes.", is_internal=True),
    Definition("metadata.log.segment.ms", LONG, 604_800_000, None, HIGH, READ_ONLY,
        "KRaft mode only: the age at which a segment of the metadata log is closed."),
    Definition("metadata.max.retention.bytes", LONG, 104_857_600, None, HIGH, READ_ONLY,
        "KRaft mode only: the maximum size of the metadata log and its snapshots."),
    Definition("metadata.max.retention.ms", LONG, 604_800_000, None, HIGH, READ_ONLY,
        "KRaft mode only: how long the metadata log and its snapshots are kept."),
    Definition("metadata.max.idle.interval.ms", INT, 500, at_least(0), LOW, READ_ONLY,
        "KRaft mode only: how often an idle controller appends an empty record; 0 for never."),
)
# fmt: on
