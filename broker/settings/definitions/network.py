"""Settings: listeners, sockets, connections, requests and threads.

Rows: name, type, default, rule, importance, when it may change, meaning.
Source: Kafka 3.9, KafkaConfig.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.settings.rules import Between, MinusOneOr, at_least, one_of
from odradek.broker.settings.types import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    INT_MAX,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    PER_BROKER,
    READ_ONLY,
    STRING,
    Definition,
)

# fmt: off
# A row per setting is read as a table; a line per field is not.
TABLE: Final = (
    Definition("listeners", STRING, "PLAINTEXT://:9092", None, HIGH, PER_BROKER,
        "The addresses to listen on, as NAME://host:port separated by commas; an empty host and "
        "0.0.0.0 are every interface, with IPv4 and IPv6."),
    Definition("advertised.listeners", STRING, None, None, HIGH, PER_BROKER,
        "The addresses sent to clients and other brokers, as NAME://host:port; listeners "
        "applies when not set."),
    Definition("listener.security.protocol.map", STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", None, LOW,
        PER_BROKER,
        "The security protocol of each listener name, as NAME:PROTOCOL pairs."),
    Definition("inter.broker.listener.name", STRING, None, None, MEDIUM, READ_ONLY,
        "The listener for connections between brokers; security.inter.broker.protocol selects "
        "it when not set."),
    Definition("security.inter.broker.protocol", STRING, "PLAINTEXT",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), MEDIUM, READ_ONLY,
        "The security protocol between brokers; it cannot be combined with "
        "inter.broker.listener.name."),
    Definition("control.plane.listener.name", STRING, None, None, HIGH, READ_ONLY,
        "The listener reserved for requests of the controller; none when not set."),
    Definition("early.start.listeners", STRING, None, None, HIGH, READ_ONLY,
        "The listeners that may accept connections before the authorizer is ready, separated by "
        "commas."),
    Definition("num.network.threads", INT, 3, at_least(1), HIGH, CLUSTER_WIDE,
        "The number of threads per listener that read requests and write responses."),
    Definition("num.io.threads", INT, 8, at_least(1), HIGH, CLUSTER_WIDE,
        "The number of threads that process requests, including disk I/O."),
    Definition("background.threads", INT, 10, at_least(1), HIGH, CLUSTER_WIDE,
        "The number of threads for background work."),
    Definition("queued.max.requests", INT, 500, at_least(1), HIGH, READ_ONLY,
        "How many requests may wait to be processed before the broker stops reading from the "
        "network."),
    Definition("queued.max.request.bytes", LONG, -1, None, MEDIUM, READ_ONLY,
        "The memory for requests being received, and as much again for requests and responses "
        "in progress; above it the largest connection is closed; -1 is 256 MiB."),
    Definition("socket.send.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY,
        "The SO_SNDBUF of client connections; -1 keeps the system's default."),
    Definition("socket.receive.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY,
        "The SO_RCVBUF of client connections; -1 keeps the system's default."),
    Definition("socket.request.max.bytes", INT, 104_857_600, at_least(1), HIGH, READ_ONLY,
        "The maximum size of a request; a larger one closes its connection."),
    Definition("socket.listen.backlog.size", INT, 50, at_least(1), MEDIUM, READ_ONLY,
        "How many connections may wait to be accepted; Linux also limits it by "
        "net.core.somaxconn."),
    Definition("socket.connection.setup.timeout.ms", LONG, 10_000, None, MEDIUM, READ_ONLY,
        "How long to wait for the first attempt to connect to another broker."),
    Definition("socket.connection.setup.timeout.max.ms", LONG, 30_000, None, MEDIUM, READ_ONLY,
        "The maximum time to wait for a connection to another broker after repeated failures."),
    Definition("request.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY,
        "How long a client inside the broker waits for a response before it retries or fails."),
    Definition("max.connections", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "The maximum number of connections to this broker; with a listener prefix, to that "
        "listener."),
    Definition("max.connections.per.ip", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "The maximum number of connections from one address; 0 accepts only addresses in "
        "max.connections.per.ip.overrides."),
    Definition("max.connections.per.ip.overrides", STRING, "", None, MEDIUM, CLUSTER_WIDE,
        "The maximum number of connections from single hosts or addresses, as host:count pairs "
        "separated by commas."),
    Definition("max.connection.creation.rate", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "The maximum number of new connections per second; with a listener prefix, of that "
        "listener."),
    Definition("connections.max.idle.ms", LONG, 600_000, None, MEDIUM, READ_ONLY,
        "How long a connection may be idle before it is closed."),
    Definition("connection.failed.authentication.delay.ms", INT, 100, at_least(0), LOW, READ_ONLY,
        "How long the close of a connection is delayed after failed authentication; less than "
        "connections.max.idle.ms."),
    Definition("max.incremental.fetch.session.cache.slots", INT, 1000, at_least(0), MEDIUM,
        READ_ONLY,
        "The maximum number of incremental fetch sessions."),
    Definition("max.request.partition.size.limit", INT, 2000, at_least(1), MEDIUM, READ_ONLY,
        "The maximum number of partitions in one request."),
    Definition("fetch.max.bytes", INT, 57_671_680, at_least(1024), MEDIUM, READ_ONLY,
        "The maximum number of bytes in one Fetch response, unless its first batch is larger."),
    Definition("message.max.bytes", INT, 1_048_588, at_least(0), HIGH, CLUSTER_WIDE,
        "The maximum size of a record batch, after compression."),
    Definition("delete.topic.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether topics can be deleted."),
    Definition("auto.create.topics.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether a topic is created when a client first uses it."),
    Definition("compression.type", STRING, "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), HIGH, CLUSTER_WIDE,
        "The compression of stored records: a codec, uncompressed, or producer to keep the "
        "producer's."),
    Definition("compression.gzip.level", INT, -1, MinusOneOr(1, 9), MEDIUM, CLUSTER_WIDE,
        "The level at which the broker compresses with gzip; -1 is the library's default."),
    Definition("compression.lz4.level", INT, 9, Between(1, 17), MEDIUM, CLUSTER_WIDE,
        "The level at which the broker compresses with lz4."),
    Definition("compression.zstd.level", INT, 3, Between(-131_072, 22), MEDIUM, CLUSTER_WIDE,
        "The level at which the broker compresses with zstd."),
    Definition("broker.id", INT, -1, None, HIGH, READ_ONLY,
        "The id of this broker, unique in the cluster; -1 generates one above "
        "reserved.broker.max.id."),
    Definition("broker.id.generation.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Whether an id is generated for a broker without one."),
    Definition("reserved.broker.max.id", INT, 1000, at_least(0), MEDIUM, READ_ONLY,
        "The maximum broker.id that can be set while ids are generated."),
    Definition("broker.rack", STRING, None, None, MEDIUM, READ_ONLY,
        "The rack of the broker, by which replicas are spread and consumers select a near one."),
    Definition("node.id", INT, -1, None, HIGH, READ_ONLY,
        "The id of this node; outside KRaft mode the same as broker.id."),
    Definition("controlled.shutdown.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Whether leadership moves to other brokers before the broker stops."),
    Definition("controlled.shutdown.max.retries", INT, 3, None, MEDIUM, READ_ONLY,
        "How often a controlled shutdown is retried before the broker stops anyway."),
    Definition("controlled.shutdown.retry.backoff.ms", LONG, 5000, None, MEDIUM, READ_ONLY,
        "How long to wait between two attempts of a controlled shutdown."),
    Definition("server.max.startup.time.ms", LONG, LONG_MAX, at_least(0), MEDIUM, READ_ONLY,
        "KRaft mode only: the maximum time that startup may take.", is_internal=True),
    Definition("unstable.api.versions.enable", BOOLEAN, False, None, HIGH, READ_ONLY,
        "Whether API versions that are still in development are served.", is_internal=True),
    Definition("unstable.feature.versions.enable", BOOLEAN, False, None, HIGH, READ_ONLY,
        "Whether feature versions that are still in development are served.", is_internal=True),
)
# fmt: on
