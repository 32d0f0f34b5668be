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
        "Where to listen: a comma-separated list of NAME://host:port; an empty host is the "
        "default interface, 0.0.0.0 all of them."),
    Definition("advertised.listeners", STRING, None, None, HIGH, PER_BROKER,
        "Addresses told to clients and other brokers, as NAME://host:port; the listeners "
        "themselves when not set."),
    Definition("listener.security.protocol.map", STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", None, LOW,
        PER_BROKER,
        "Which security protocol each listener name speaks, as NAME:PROTOCOL pairs."),
    Definition("inter.broker.listener.name", STRING, None, None, MEDIUM, READ_ONLY,
        "The listener that brokers use among themselves; when not set, "
        "security.inter.broker.protocol chooses it."),
    Definition("security.inter.broker.protocol", STRING, "PLAINTEXT",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), MEDIUM, READ_ONLY,
        "Security protocol between brokers; may not stand beside inter.broker.listener.name."),
    Definition("control.plane.listener.name", STRING, None, None, HIGH, READ_ONLY,
        "A listener set apart for requests of the controller; none when not set."),
    Definition("early.start.listeners", STRING, None, None, HIGH, READ_ONLY,
        "Listeners that may accept connections before the authorizer is ready, separated by "
        "commas."),
    Definition("num.network.threads", INT, 3, at_least(1), HIGH, CLUSTER_WIDE,
        "Threads per listener that read requests and write answers."),
    Definition("num.io.threads", INT, 8, at_least(1), HIGH, CLUSTER_WIDE,
        "Threads that work on requests, disk included."),
    Definition("background.threads", INT, 10, at_least(1), HIGH, CLUSTER_WIDE,
        "Threads for background chores."),
    Definition("queued.max.requests", INT, 500, at_least(1), HIGH, READ_ONLY,
        "Requests that may wait for work before reading from the network pauses."),
    Definition("queued.max.request.bytes", LONG, -1, None, MEDIUM, READ_ONLY,
        "Bytes of requests that are being received, and again of requests at work and responses "
        "under way, before the connection that holds most is closed; -1 stands for 256 MiB."),
    Definition("socket.send.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY,
        "SO_SNDBUF of client connections; -1 leaves the choice to the system."),
    Definition("socket.receive.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY,
        "SO_RCVBUF of client connections; -1 leaves the choice to the system."),
    Definition("socket.request.max.bytes", INT, 104_857_600, at_least(1), HIGH, READ_ONLY,
        "Largest request that is accepted; a larger one closes its connection."),
    Definition("socket.listen.backlog.size", INT, 50, at_least(1), MEDIUM, READ_ONLY,
        "Connections that the system may hold before they are accepted; Linux also bounds "
        "it by net.core.somaxconn."),
    Definition("socket.connection.setup.timeout.ms", LONG, 10_000, None, MEDIUM, READ_ONLY,
        "How long to wait for the first attempt to connect to another broker."),
    Definition("socket.connection.setup.timeout.max.ms", LONG, 30_000, None, MEDIUM, READ_ONLY,
        "Longest wait for a connection to another broker after repeated failures."),
    Definition("request.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY,
        "How long a client of the broker waits for an answer before it tries again or gives up."),
    Definition("max.connections", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Connections to this broker at any time; also per listener with the listener prefix."),
    Definition("max.connections.per.ip", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Connections from one address at any time; 0 admits only what "
        "max.connections.per.ip.overrides lists."),
    Definition("max.connections.per.ip.overrides", STRING, "", None, MEDIUM, CLUSTER_WIDE,
        "Other bounds for single hosts or addresses, as host:count pairs separated by commas."),
    Definition("max.connection.creation.rate", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "New connections per second; also per listener with the listener prefix."),
    Definition("connections.max.idle.ms", LONG, 600_000, None, MEDIUM, READ_ONLY,
        "A connection without traffic for this long is closed."),
    Definition("connection.failed.authentication.delay.ms", INT, 100, at_least(0), LOW, READ_ONLY,
        "How long a failed authentication is kept waiting for its closing; must be less "
        "than connections.max.idle.ms."),
    Definition("max.incremental.fetch.session.cache.slots", INT, 1000, at_least(0), MEDIUM,
        READ_ONLY,
        "Fetch sessions that are remembered at once."),
    Definition("max.request.partition.size.limit", INT, 2000, at_least(1), MEDIUM, READ_ONLY,
        "Partitions that one request may ask for at most."),
    Definition("fetch.max.bytes", INT, 57_671_680, at_least(1024), MEDIUM, READ_ONLY,
        "Most bytes answered to one fetch, unless a single batch is larger."),
    Definition("message.max.bytes", INT, 1_048_588, at_least(0), HIGH, CLUSTER_WIDE,
        "Largest batch of records that is accepted, after compression."),
    Definition("delete.topic.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether topics can be deleted."),
    Definition("auto.create.topics.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether a topic is created when a client first asks for it."),
    Definition("compression.type", STRING, "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), HIGH, CLUSTER_WIDE,
        "How records are stored: a codec, uncompressed, or producer to leave them as they came."),
    Definition("compression.gzip.level", INT, -1, MinusOneOr(1, 9), MEDIUM, CLUSTER_WIDE,
        "Level of gzip when the broker compresses with it; -1 is the library's own."),
    Definition("compression.lz4.level", INT, 9, Between(1, 17), MEDIUM, CLUSTER_WIDE,
        "Level of lz4 when the broker compresses with it."),
    Definition("compression.zstd.level", INT, 3, Between(-131_072, 22), MEDIUM, CLUSTER_WIDE,
        "Level of zstd when the broker compresses with it."),
    Definition("broker.id", INT, -1, None, HIGH, READ_ONLY,
        "Number of this broker, unique in the cluster; -1 draws one above reserved.broker.max.id."),
    Definition("broker.id.generation.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Whether a broker without a number draws one from the coordination service."),
    Definition("reserved.broker.max.id", INT, 1000, at_least(0), MEDIUM, READ_ONLY,
        "Highest number that may be set by hand while numbers are drawn."),
    Definition("broker.rack", STRING, None, None, MEDIUM, READ_ONLY,
        "Rack or zone of the broker, for spreading replicas and for fetching nearby."),
    Definition("node.id", INT, -1, None, HIGH, READ_ONLY,
        "Number of this node; the same as broker.id outside KRaft mode."),
    Definition("controlled.shutdown.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Whether leaders are moved away before the broker stops."),
    Definition("controlled.shutdown.max.retries", INT, 3, None, MEDIUM, READ_ONLY,
        "How often a controlled shutdown is tried before the broker stops anyway."),
    Definition("controlled.shutdown.retry.backoff.ms", LONG, 5000, None, MEDIUM, READ_ONLY,
        "Pause between two tries of a controlled shutdown."),
    Definition("server.max.startup.time.ms", LONG, LONG_MAX, at_least(0), MEDIUM, READ_ONLY,
        "KRaft mode only: how long a start may take before it counts as failed.", is_internal=True),
    Definition("unstable.api.versions.enable", BOOLEAN, False, None, HIGH, READ_ONLY,
        "Whether versions of APIs that are still being developed are offered.", is_internal=True),
    Definition("unstable.feature.versions.enable", BOOLEAN, False, None, HIGH, READ_ONLY,
        "Whether versions of features that are still being developed are "
        "offered.", is_internal=True),
)
# fmt: on
