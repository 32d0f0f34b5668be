"""`odradek rolling-restart`: restarts brokers one after the other, by a command of the operator.

Before and after each restart it waits until all brokers agree that every broker is registered and
every replica in sync.  It stops at the first trouble.
Exit codes: 0 success; 1 it has stopped, and stderr says at which broker and why; 2 an invalid
command line; 130 after Ctrl-C or SIGTERM.
Kafka has no such tool.
"""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Collection, Sequence
from string import Formatter
from typing import Final

from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from odradek.tools.client import BrokerConnection, Client, ClientError
from odradek.tools.cluster_status.render import partition_names
from odradek.tools.errors import ToolError
from odradek.tools.options import CLIENT_FLAGS, Options, OptionsError, positive_number, read_flags
from odradek.tools.run_command import run_with_client
from odradek.tools.steering.cluster_queries import partition_statuses, read_metadata
from odradek.tools.steering.drain import check_leaves_enough
from odradek.tools.steering.execution import lead_by_preferred, report
from odradek.tools.steering.rebalance import stopped_by_signals

WHAT_IT_DOES: Final = "This tool restarts the brokers of a cluster one after the other."
TIMEOUT_MS: Final = 600_000
RESPONSE_TIMEOUT_MS: Final = 5_000
POLL_S: Final = 0.5
FLAGS: Final = (*CLIENT_FLAGS, *read_flags("rolling-restart"))
FIELDS: Final = ("id", "host", "port", "rack")


def main(arguments: Sequence[str]) -> int:
    return run_with_client(arguments, WHAT_IT_DOES, _act, FLAGS, ["command"])


def _act(client: Client, options: Options) -> None:
    template = options.required("command")
    if not template.strip():
        raise OptionsError("--command: an empty command restarts no broker")
    try:
        unknown = unknown_fields(template)
    except ValueError as error:
        raise OptionsError(f"--command: '{template}': {error}") from error
    if unknown:
        raise OptionsError(
            f"--command: {{{unknown[0]}}} is not one of {{id}}, {{host}}, {{port}}, {{rack}}"
        )
    timeout_ms = positive_number(options, "timeout-ms", TIMEOUT_MS)
    client.set_timeout(RESPONSE_TIMEOUT_MS)
    metadata = client.metadata()
    expected = sorted(broker.node_id for broker in metadata.brokers)
    chosen = _chosen(options, expected)
    restart = RollingRestart(client, template, expected, timeout_ms)
    if options.has("dry-run"):
        rows = {broker.node_id: broker for broker in metadata.brokers}
        while chosen:
            node_id = next_broker(chosen, metadata.controller_id)
            chosen.remove(node_id)
            print(f"broker {node_id}: {command_for(template, rows[node_id])}")
        return
    with stopped_by_signals():
        restart.run(chosen)


def _chosen(options: Options, expected: Sequence[int]) -> list[int]:
    words = options.list_of("brokers")
    for word in words:
        if not word.isdecimal() or int(word) not in expected:
            raise ToolError(f"the cluster has no broker {word}")
    return sorted({int(word) for word in words}) or list(expected)


class RollingRestart:
    """Restarts of a cluster.

    template    the command, with names in braces
    expected    the brokers that have to be there
    timeout_ms  of each wait
    """

    def __init__(
        self, client: Client, template: str, expected: Sequence[int], timeout_ms: int
    ) -> None:
        self._client = client
        self._template = template
        self._expected = expected
        self._timeout_ms = timeout_ms

    def run(self, chosen: Sequence[int]) -> None:
        """Restart these brokers.

        raises  ToolError
        """
        remaining = list(chosen)
        while remaining:
            metadata = self._wait_until_well("before the restart of another broker")
            node_id = next_broker(remaining, metadata.controller_id)
            role = " (controller)" if node_id == metadata.controller_id else ""
            (broker,) = [row for row in metadata.brokers if row.node_id == node_id]
            check_leaves_enough(self._client, partition_statuses(metadata), node_id)
            command = command_for(self._template, broker)
            report(f"broker {node_id}{role}, {broker.host}:{broker.port}: {command}")
            started_s = time.monotonic()
            self._restart(broker, command)
            metadata = self._wait_until_well(f"after the restart of broker {node_id}")
            preferred = [
                partition
                for partition, status in partition_statuses(metadata).items()
                if status.replicas[0] == node_id
            ]
            lead_by_preferred(self._client, preferred)
            elapsed_s = time.monotonic() - started_s
            report(f"broker {node_id} is back, all replicas are in sync ({elapsed_s:.1f} s)")
            remaining.remove(node_id)
        report(f"Restarted: {', '.join(map(str, chosen))}")

    def _restart(self, broker: MetadataResponseBroker, command: str) -> None:
        """Run the command, and wait until a connection from before has ended."""
        node_id = broker.node_id
        connection = self._client.connection(broker)
        try:
            done = subprocess.run(
                command,
                shell=True,
                stdin=subprocess.DEVNULL,
                timeout=self._timeout_ms / 1000,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ToolError(
                f"stopped at broker {node_id}: its command ran longer than {self._timeout_ms} ms"
            ) from error
        if done.returncode:
            raise ToolError(
                f"stopped at broker {node_id}: its command ended with {done.returncode}"
            )
        deadline = time.monotonic() + self._timeout_ms / 1000
        while serves(connection):
            if time.monotonic() > deadline:
                raise ToolError(
                    f"stopped at broker {node_id}: the command has ended, and the broker was not "
                    f"restarted in {self._timeout_ms} ms"
                )
            time.sleep(POLL_S)
        self._client.close()

    def _wait_until_well(self, moment: str) -> MetadataResponse:
        """Wait until all brokers say that nothing forbids a restart.

        raises  ToolError
        """
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            try:
                metadata = self._client.metadata()
                reason = trouble(metadata, self._expected)
                for broker in [] if reason else metadata.brokers:
                    connection = self._client.connection(broker)
                    reason = reason or trouble(read_metadata(connection), self._expected)
            except ClientError as error:
                self._client.close()
                reason = str(error)
            if reason is None:
                return metadata
            if time.monotonic() > deadline:
                raise ToolError(f"stopped {moment}: after {self._timeout_ms} ms {reason}")
            time.sleep(POLL_S)


def serves(connection: BrokerConnection) -> bool:
    """Whether a connection is still the one of a running broker."""
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    try:
        connection.request(request, MetadataResponse)
    except ClientError:
        return False
    return True


def next_broker(remaining: Collection[int], controller: int) -> int:
    """The broker with the lowest id; the active controller comes last, since each of its restarts
    moves the controller."""
    return min(remaining, key=lambda node_id: (node_id == controller, node_id))


def unknown_fields(template: str) -> list[str]:
    """The names in braces that no broker has.

    raises  ValueError for a brace that is not closed
    """
    fields = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    return [name for name in fields if name not in FIELDS]


def command_for(template: str, broker: MetadataResponseBroker) -> str:
    """The command for a shell that restarts a broker; its values are quoted."""
    values = {
        "id": str(broker.node_id),
        "host": broker.host,
        "port": str(broker.port),
        "rack": broker.rack or "",
    }
    return template.format(**{name: shlex.quote(value) for name, value in values.items()})


def trouble(metadata: MetadataResponse, expected: Sequence[int]) -> str | None:
    """Why no broker may be restarted now; None: nothing.

    expected  the brokers that have to be registered
    """
    registered = [broker.node_id for broker in metadata.brokers]
    missing = [node_id for node_id in expected if node_id not in registered]
    if missing:
        return f"broker {', '.join(map(str, missing))} is not registered"
    if metadata.controller_id not in registered:
        return "there is no controller"
    statuses = partition_statuses(metadata)
    offline = [
        partition for partition, status in statuses.items() if status.leader not in registered
    ]
    if offline:
        return f"{len(offline)} partitions are offline ({partition_names(offline)})"
    lagging = [
        partition
        for partition, status in statuses.items()
        if set(status.isr) != set(status.replicas)
    ]
    if lagging:
        return f"{len(lagging)} partitions are under-replicated ({partition_names(lagging)})"
    return None
