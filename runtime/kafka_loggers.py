"""Loggers of Apache Kafka's brokers, by whose names runbooks change levels (KIP-412).

Several of them stand for one logger here: its level is the one that was set last.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

LOGGERS: Final = {
    "odradek": (
        "kafka",
        "org.apache.kafka",
        "kafka.server.KafkaServer",
        "kafka.server.KafkaConfig",
    ),
    "odradek.controller": (
        "kafka.controller",
        "kafka.controller.ControllerEventManager$ControllerEventThread",
        "kafka.controller.KafkaController",
        "kafka.controller.TopicDeletionManager",
        "kafka.controller.ZkPartitionStateMachine",
        "kafka.controller.ZkReplicaStateMachine",
        "kafka.server.ZkAdminManager",
        "kafka.zk.AdminZkClient",
        "state.change.logger",
    ),
    "odradek.interbroker": (
        "kafka.controller.ControllerChannelManager",
        "kafka.controller.RequestSendThread",
        "kafka.server.NodeToControllerRequestThread",
        "org.apache.kafka.clients.NetworkClient",
    ),
    "odradek.server": (
        "kafka.network.ConnectionQuotas",
        "kafka.network.DataPlaneAcceptor",
        "kafka.network.Processor",
        "kafka.network.RequestChannel$",
        "kafka.network.SocketServer",
        "kafka.server.KafkaApis",
        "kafka.server.KafkaRequestHandler",
        "org.apache.kafka.common.network.Selector",
    ),
    "odradek.requests": ("kafka.request.logger",),
    "odradek.replication": ("kafka.cluster.Partition", "kafka.server.ReplicaManager"),
    "odradek.replication.fetcher": (
        "kafka.server.ReplicaFetcherManager",
        "kafka.server.ReplicaFetcherThread",
    ),
    "odradek.replication.moves": (
        "kafka.server.ReplicaAlterLogDirsManager",
        "kafka.server.ReplicaAlterLogDirsThread",
    ),
    "odradek.storage": (
        "kafka.log",
        "kafka.log.LocalLog",
        "kafka.log.LogManager",
        "kafka.log.UnifiedLog",
        "org.apache.kafka.storage.internals.log.LogSegment",
        "org.apache.kafka.storage.internals.log.ProducerStateManager",
    ),
    "odradek.compaction": (
        "kafka.log.LogCleaner",
        "kafka.log.LogCleaner$CleanerThread",
        "kafka.log.LogCleanerManager",
    ),
    "odradek.groups": (
        "kafka.coordinator.group.GroupCoordinator",
        "kafka.coordinator.group.GroupMetadataManager",
        "org.apache.kafka.coordinator.group.GroupMetadataManager",
    ),
    "odradek.transactions": (
        "kafka.coordinator.transaction.TransactionCoordinator",
        "kafka.coordinator.transaction.TransactionMarkerChannelManager",
        "kafka.coordinator.transaction.TransactionStateManager",
    ),
    "odradek.acls": ("kafka.security.authorizer.AclAuthorizer",),
    "odradek.authorizer": ("kafka.authorizer.logger",),
    "odradek.configs": ("kafka.server.ConfigAdminManager", "kafka.server.DynamicBrokerConfig"),
    "kazoo": ("kafka.zk.KafkaZkClient", "kafka.zookeeper.ZooKeeperClient", "org.apache.zookeeper"),
}
"""Logger of this broker -> loggers of Kafka."""

KAFKA_LOGGERS: Final = MappingProxyType(
    {kafka: own for own, names in LOGGERS.items() for kafka in names}
)
"""Logger of Kafka -> the logger whose level it is."""
