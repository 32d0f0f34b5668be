"""The `odradek` command.  A subcommand is one module, which is imported when it runs.

Exit codes: 0 success; 1 failure; 2 a command line that cannot be parsed; 130 after Ctrl-C.  A
subcommand may have others.  After `--kafka-exit-codes`, which the scripts of `odradek shims` put
first, 1 takes the place of 2, as in Apache Kafka's tools.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

from odradek.tools.run import KAFKA_EXIT_CODES, KAFKA_VERSION, WRONG_USAGE

SUBCOMMANDS: Final = {
    "acls": ("odradek.tools.acls.command", "add, remove and list access control lists"),
    "advise": (
        "odradek.tools.steering.advise",
        "say how many partitions a topic needs, and when disks are full",
    ),
    "backup": (
        "odradek.tools.backup.command",
        "back up topics, their configs and committed offsets, or verify a backup",
    ),
    "broker-api-versions": (
        "odradek.tools.broker_api_versions",
        "show which APIs and versions brokers serve",
    ),
    "check-log-dirs": (
        "odradek.tools.check_log_dirs",
        "verify the log directories of a stopped broker",
    ),
    "canary": (
        "odradek.tools.canary.command",
        "send records to each broker and read them back, for ever",
    ),
    "client-metrics": (
        "odradek.tools.client_metrics",
        "describe and alter subscriptions to the metrics of clients",
    ),
    "cluster": ("odradek.tools.cluster.command", "start several brokers on this machine"),
    "cluster-status": (
        "odradek.tools.cluster_status.command",
        "show brokers, partitions, directories and groups on one screen",
    ),
    "cluster-tool": ("odradek.tools.cluster_tool", "print the id of a cluster"),
    "completion": ("odradek.completion", "print the completion script of a shell"),
    "configs": (
        "odradek.tools.configs.command",
        "describe and alter the dynamic configuration of topics and brokers",
    ),
    "console": (
        "odradek.web_console.command",
        "serve a web console for one or more clusters",
    ),
    "console-consumer": ("odradek.tools.console.consumer.command", "print records of a topic"),
    "console-producer": ("odradek.tools.console.producer.command", "send lines to a topic"),
    "consumer-groups": (
        "odradek.tools.consumer_groups.command",
        "list, describe, reset and delete consumer groups",
    ),
    "container-config": (
        "odradek.container.config_command",
        "print the settings that a container makes of its environment",
    ),
    "container-health": (
        "odradek.container.health_command",
        "check that the broker of a container serves clients",
    ),
    "container-ready": (
        "odradek.container.ready_command",
        "wait until brokers, or a ZooKeeper, serve their clients",
    ),
    "container-start": (
        "odradek.container.start_command",
        "start the broker of a container, from its environment",
    ),
    "consumer-perf-test": (
        "odradek.tools.consumer_performance.command",
        "measure how many records a second a consumer reads",
    ),
    "delegation-tokens": (
        "odradek.tools.delegation_tokens",
        "create, renew, expire and describe delegation tokens",
    ),
    "delete-records": (
        "odradek.tools.delete_records",
        "delete records of partitions up to an offset",
    ),
    "demo": ("odradek.demo.command", "show what a cluster does when something fails"),
    "drain": (
        "odradek.tools.steering.drain",
        "move all leaders and replicas off a broker",
    ),
    "dump-log": ("odradek.tools.dump_log.command", "print the files of logs as text"),
    "e2e-latency": (
        "odradek.tools.end_to_end_latency",
        "measure the time from sending a record to reading it",
    ),
    "explain-lookup": (
        "odradek.tools.explain_lookup.command",
        "show the hops by which a record is found",
    ),
    "features": (
        "odradek.tools.features",
        "finalize levels of features, such as transaction.version",
    ),
    "get-offsets": ("odradek.tools.get_offsets", "print offsets of partitions"),
    "lag": ("odradek.tools.lag.command", "say which consumer groups keep up"),
    "leader-election": ("odradek.tools.leader_election", "elect leaders of partitions"),
    "log-dirs": ("odradek.tools.log_dirs", "describe the log directories of brokers"),
    "metadata-quorum": (
        "odradek.tools.metadata_quorum",
        "describe which node of a cluster with process.roles coordinates",
    ),
    "producer-perf-test": (
        "odradek.tools.producer_performance.command",
        "measure how many records a second a producer gets acknowledged",
    ),
    "rebalance": (
        "odradek.tools.steering.rebalance",
        "balance replicas, leaders, disks and traffic over brokers",
    ),
    "reassign-partitions": (
        "odradek.tools.reassign_partitions.command",
        "move replicas between brokers and between log directories",
    ),
    "recover-metadata": (
        "odradek.tools.recover_metadata",
        "rebuild the metadata of a stopped broker from the folders of its topics",
    ),
    "replica-verification": (
        "odradek.tools.replica_verification.command",
        "compare the replicas of partitions",
    ),
    "restore": (
        "odradek.tools.backup.restore_command",
        "restore a backup into an empty cluster, with the same offsets",
    ),
    "rolling-restart": (
        "odradek.tools.steering.rolling_restart",
        "restart brokers one after the other, while all replicas are in sync",
    ),
    "run-class": (
        "odradek.run_class",
        "run the tool that takes the place of a Java class of Apache Kafka",
    ),
    "server-start": (
        "odradek.server_start",
        "start a broker with the arguments of kafka-server-start.sh",
    ),
    "server-stop": ("odradek.tools.server_stop", "stop the brokers of this machine"),
    "shims": (
        "odradek.tools.shims.command",
        "write the scripts of Apache Kafka's bin/, each of which runs its tool",
    ),
    "start": ("odradek.start", "start a broker in the foreground"),
    "storage": (
        "odradek.tools.storage",
        "format and describe the directories of a node with process.roles",
    ),
    "streams-application-reset": (
        "odradek.tools.streams_application_reset",
        "reset an application of Kafka Streams, so that it processes its input again",
    ),
    "top": ("odradek.tools.steering.top", "show brokers, rates and lag, refreshed"),
    "topics": ("odradek.tools.topics.command", "create, list, describe, alter and delete topics"),
    "transactions": (
        "odradek.tools.transactions.command",
        "list and describe transactions, find and abort those that hang",
    ),
    "verifiable-consumer": (
        "odradek.tools.verifiable.consumer",
        "print an event for what a consumer reads and commits",
    ),
    "verifiable-producer": (
        "odradek.tools.verifiable.producer",
        "send integers and print an event for each acknowledgement",
    ),
    "which-partition": (
        "odradek.tools.which_partition",
        "print the partition that each client's partitioner takes for a key",
    ),
    "zookeeper-server-start": (
        "odradek.container.zookeeper_command",
        "serve the coordination of brokers as a ZooKeeper",
    ),
    "zookeeper-shell": (
        "odradek.tools.zookeeper_shell",
        "read znodes with the arguments of zookeeper-shell.sh",
    ),
    "znodes": ("odradek.tools.znodes", "read the znodes of a cluster"),
    # A name, not an import: PySpark is an optional dependency.
    "pipeline": (
        "odradek.pipeline.cli",
        "run pipelines on Spark: a file declares source, steps and sinks",
    ),
}
INTERRUPTED: Final = 130
"""The exit code that shells report: 128 + the number of SIGINT."""


def usage() -> str:
    """The text that is printed when no subcommand is given."""
    lines = ["usage: odradek COMMAND [ARGUMENT...]", ""]
    lines += [f"  {name:20} {meaning}" for name, (_, meaning) in SUBCOMMANDS.items()]
    lines += [
        "",
        "`odradek COMMAND --help` describes a command; `odradek --version` prints the version.",
    ]
    return "\n".join(lines)


def version_line() -> str:
    """The version of this package, and the Kafka release whose protocol and tools it matches."""
    from importlib.metadata import version

    return f"odradek {version('odradek')} (Apache Kafka {KAFKA_VERSION})"


def no_command(word: str) -> str:
    """The message about a word that is not a subcommand: it names the closest one, by its own name
    or by that of Kafka's script."""
    from difflib import get_close_matches

    bare = word.removesuffix(".sh").removeprefix("kafka-")
    close = [bare] if bare in SUBCOMMANDS else get_close_matches(bare, SUBCOMMANDS, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"odradek: there is no command '{word}'{hint}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == [KAFKA_EXIT_CODES]:
        try:
            code = main(words[1:])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        return 1 if code == WRONG_USAGE else code
    if not words:
        print(usage(), file=sys.stderr)
        return WRONG_USAGE
    if words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if words[0] in ("-V", "--version", "version"):
        print(version_line())
        return 0
    row = SUBCOMMANDS.get(words[0])
    if row is None:
        print(f"{no_command(words[0])}\n\n{usage()}", file=sys.stderr)
        return WRONG_USAGE
    run: Callable[[Sequence[str]], int] = import_module(row[0]).main
    try:
        return run(words[1:])
    except KeyboardInterrupt:
        return INTERRUPTED
