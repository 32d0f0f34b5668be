"""The scripts in the bin/ of Apache Kafka 3.9, and what serves each.

A script whose command is None is not served: `text` says in one line which program does its work.
Source: bin/*.sh of Apache Kafka 3.9, whose last lines name the main classes.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Script(NamedTuple):
    """One script of bin/, named without `.sh`."""

    name: str
    command: str | None
    """The subcommand of `odradek` that serves it."""
    classes: tuple[str, ...] = ()
    """Main classes of the script, the newest first: `kafka-run-class.sh CLASS` runs it, too."""
    text: str = ""
    """Which program does the work of a script that has no command."""


TOOLS: Final = "org.apache.kafka.tools"
_CONNECT: Final = "Kafka Connect is a client of the brokers: run {} of Apache Kafka"

SCRIPTS: Final = (
    Script(
        "connect-distributed",
        None,
        ("org.apache.kafka.connect.cli.ConnectDistributed",),
        _CONNECT.format("connect-distributed.sh"),
    ),
    Script(
        "connect-mirror-maker",
        None,
        ("org.apache.kafka.connect.mirror.MirrorMaker",),
        "run connect-mirror-maker.sh of Apache Kafka, or a mirror pipeline (`odradek pipeline`)",
    ),
    Script(
        "connect-plugin-path",
        None,
        (f"{TOOLS}.ConnectPluginPath",),
        _CONNECT.format("connect-plugin-path.sh"),
    ),
    Script(
        "connect-standalone",
        None,
        ("org.apache.kafka.connect.cli.ConnectStandalone",),
        _CONNECT.format("connect-standalone.sh"),
    ),
    Script("kafka-acls", "acls", ("kafka.admin.AclCommand",)),
    Script(
        "kafka-broker-api-versions",
        "broker-api-versions",
        (f"{TOOLS}.BrokerApiVersionsCommand", "kafka.admin.BrokerApiVersionsCommand"),
    ),
    Script(
        "kafka-client-metrics",
        "client-metrics",
        (f"{TOOLS}.ClientMetricsCommand",),
    ),
    Script(
        "kafka-cluster",
        "cluster-tool",
        (f"{TOOLS}.ClusterTool", "kafka.tools.ClusterTool"),
    ),
    Script("kafka-configs", "configs", ("kafka.admin.ConfigCommand",)),
    Script(
        "kafka-console-consumer",
        "console-consumer",
        (f"{TOOLS}.consumer.ConsoleConsumer", "kafka.tools.ConsoleConsumer"),
    ),
    Script(
        "kafka-console-producer",
        "console-producer",
        ("kafka.tools.ConsoleProducer", f"{TOOLS}.ConsoleProducer"),
    ),
    Script(
        "kafka-consumer-groups",
        "consumer-groups",
        (f"{TOOLS}.consumer.group.ConsumerGroupCommand", "kafka.admin.ConsumerGroupCommand"),
    ),
    Script(
        "kafka-consumer-perf-test",
        "consumer-perf-test",
        (f"{TOOLS}.ConsumerPerformance", "kafka.tools.ConsumerPerformance"),
    ),
    Script(
        "kafka-delegation-tokens",
        "delegation-tokens",
        (f"{TOOLS}.DelegationTokenCommand", "kafka.admin.DelegationTokenCommand"),
    ),
    Script(
        "kafka-delete-records",
        "delete-records",
        (f"{TOOLS}.DeleteRecordsCommand", "kafka.admin.DeleteRecordsCommand"),
    ),
    Script(
        "kafka-dump-log",
        "dump-log",
        ("kafka.tools.DumpLogSegments",),
    ),
    Script(
        "kafka-e2e-latency",
        "e2e-latency",
        (f"{TOOLS}.EndToEndLatency", "kafka.tools.EndToEndLatency"),
    ),
    Script("kafka-features", "features", (f"{TOOLS}.FeatureCommand", "kafka.admin.FeatureCommand")),
    Script(
        "kafka-get-offsets",
        "get-offsets",
        (f"{TOOLS}.GetOffsetShell", "kafka.tools.GetOffsetShell"),
    ),
    Script(
        "kafka-jmx",
        None,
        (f"{TOOLS}.JmxTool", "kafka.tools.JmxTool"),
        "there is no JVM, and brokers export no metrics yet; `odradek cluster-status` shows the "
        "cluster",
    ),
    Script(
        "kafka-leader-election",
        "leader-election",
        (f"{TOOLS}.LeaderElectionCommand", "kafka.admin.LeaderElectionCommand"),
    ),
    Script(
        "kafka-log-dirs",
        "log-dirs",
        (f"{TOOLS}.LogDirsCommand", "kafka.admin.LogDirsCommand"),
    ),
    Script(
        "kafka-metadata-quorum",
        "metadata-quorum",
        (f"{TOOLS}.MetadataQuorumCommand", "kafka.admin.MetadataQuorumCommand"),
    ),
    Script(
        "kafka-metadata-shell",
        None,
        ("org.apache.kafka.shell.MetadataShell",),
        "the metadata are znodes; `odradek znodes` prints them",
    ),
    Script(
        "kafka-mirror-maker",
        None,
        ("kafka.tools.MirrorMaker",),
        "run kafka-mirror-maker.sh of Apache Kafka, or a mirror pipeline (`odradek pipeline`)",
    ),
    Script(
        "kafka-producer-perf-test",
        "producer-perf-test",
        (f"{TOOLS}.ProducerPerformance",),
    ),
    Script(
        "kafka-reassign-partitions",
        "reassign-partitions",
        (
            f"{TOOLS}.reassign.ReassignPartitionsCommand",
            "kafka.admin.ReassignPartitionsCommand",
        ),
    ),
    Script(
        "kafka-replica-verification",
        "replica-verification",
        (f"{TOOLS}.ReplicaVerificationTool", "kafka.tools.ReplicaVerificationTool"),
    ),
    Script("kafka-run-class", "run-class"),
    Script("kafka-server-start", "server-start", ("kafka.Kafka",)),
    Script("kafka-server-stop", "server-stop"),
    Script("kafka-storage", "storage", ("kafka.tools.StorageTool",)),
    Script(
        "kafka-streams-application-reset",
        "streams-application-reset",
        (f"{TOOLS}.StreamsResetter", "kafka.tools.StreamsResetter"),
    ),
    Script("kafka-topics", "topics", (f"{TOOLS}.TopicCommand", "kafka.admin.TopicCommand")),
    Script(
        "kafka-transactions",
        "transactions",
        (f"{TOOLS}.TransactionsCommand", "kafka.admin.TransactionsCommand"),
    ),
    Script(
        "kafka-verifiable-consumer",
        "verifiable-consumer",
        (f"{TOOLS}.VerifiableConsumer",),
    ),
    Script(
        "kafka-verifiable-producer",
        "verifiable-producer",
        (f"{TOOLS}.VerifiableProducer",),
    ),
    Script(
        "trogdor",
        None,
        (
            "org.apache.kafka.trogdor.coordinator.Coordinator",
            "org.apache.kafka.trogdor.agent.Agent",
        ),
        "run trogdor.sh of Apache Kafka, whose agents are clients of the brokers",
    ),
    Script(
        "zookeeper-security-migration",
        None,
        ("kafka.admin.ZkSecurityMigrator",),
        "run zookeeper-security-migration.sh of Apache Kafka against the ZooKeeper ensemble",
    ),
    Script(
        "zookeeper-server-start",
        "zookeeper-server-start",
        ("org.apache.zookeeper.server.quorum.QuorumPeerMain",),
    ),
    Script("zookeeper-server-stop", None, (), "stop the server of Apache ZooKeeper as it was run"),
    Script(
        "zookeeper-shell",
        "zookeeper-shell",
        (
            "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka",
            "org.apache.zookeeper.ZooKeeperMain",
        ),
    ),
)


def not_served(script: Script) -> str:
    """The line about a script without a command."""
    return f"{script.name}: not served by Odradek: {script.text}"


def script_of_class(name: str) -> Script | None:
    """The script that runs a main class of Apache Kafka, or None."""
    return next((script for script in SCRIPTS if name in script.classes), None)
