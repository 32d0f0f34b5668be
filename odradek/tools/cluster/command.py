"""`odradek cluster [--brokers N]`: several brokers on this machine, without a ZooKeeper.

Broker 0 serves the coordination to the others, which connect to it as to a ZooKeeper; so the
cluster is for one machine, development and tests: while broker 0 is away, no leader changes.
A broker that ends by itself is reported and started again.

Exit codes: 0 after SIGTERM or SIGINT, 1 when a broker cannot be started or ends again at once (one
line on stderr gives the reason), 2 for a command line that cannot be parsed.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odradek.launcher import module_command
from odradek.tools.arguments import add_arguments, add_override

if TYPE_CHECKING:
    from odradek.tools.cluster.supervised import SupervisedProcess

HOST: Final = "127.0.0.1"
BROKERS_MAX: Final = 20
BROKERS_DEFAULT: Final = 3
PORT_DEFAULT: Final = 9092
ZOOKEEPER_PORT_DEFAULT: Final = 2181
REPLICAS_MAX: Final = 3
SESSION_TIMEOUT_MS: Final = "6000"
"""After how long another replica leads when a broker was killed; Kafka has 18000."""
READY: Final = r"odradek is ready on "


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek cluster",
        description="Start brokers on this machine that form a cluster, without a ZooKeeper: for "
        "development and tests.  Ctrl-C stops all of them.",
    )
    add_arguments(
        parser,
        "cluster",
        {
            "--brokers": {"type": _count, "default": BROKERS_DEFAULT},
            "--data": {"type": Path, "default": Path("data", "cluster")},
            "--port": {"type": _port, "default": PORT_DEFAULT},
            "--zookeeper-port": _port,
        },
    )
    add_override(parser, "a setting for all brokers; may be repeated")
    return parser


def _count(text: str) -> int:
    count = int(text) if text.isdecimal() else 0
    if not 1 <= count <= BROKERS_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {BROKERS_MAX}")
    return count


def _port(text: str) -> int:
    port = int(text) if text.isdecimal() else -1
    if not 0 <= port <= 65_535:
        raise argparse.ArgumentTypeError(f"{text} is not a port")
    return port


def ports_of(port: int, zookeeper_port: int | None, count: int) -> tuple[list[int], int]:
    """(the ports of the brokers, that of the coordination)."""
    free = free_ports(count + 1)
    ports = free[1:] if port == 0 else [port + number for number in range(count)]
    if zookeeper_port is None:
        zookeeper_port = 0 if port == 0 else ZOOKEEPER_PORT_DEFAULT
    return ports, zookeeper_port or free[0]


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now."""
    with ExitStack() as stack:
        bound = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in bound:
            listener.bind((HOST, 0))
        return [listener.getsockname()[1] for listener in bound]


def broker_settings(
    number: int, ports: Sequence[int], zookeeper_port: int, data: Path
) -> dict[str, str]:
    """The settings of one broker, which --override may change."""
    replicas = str(min(REPLICAS_MAX, len(ports)))
    if number == 0:
        coordination = {"odradek.embedded.zookeeper.listener": f"{HOST}:{zookeeper_port}"}
    else:
        coordination = {"zookeeper.connect": f"{HOST}:{zookeeper_port}"}
    return {
        "broker.id": str(number),
        "listeners": f"PLAINTEXT://{HOST}:{ports[number]}",
        "log.dirs": str(data / f"broker-{number}"),
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "group.initial.rebalance.delay.ms": "0",
        "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
        **coordination,
    }


def broker_process(
    properties: Path, environment: Mapping[str, str] | None = None
) -> SupervisedProcess:
    """A broker with a settings file; its number is in the name of the file."""
    from odradek.tools.cluster.supervised import SupervisedProcess

    number = properties.stem.rpartition("-")[2]
    command = module_command("odradek", "start", str(properties))
    return SupervisedProcess(f"broker {number}", command, ready=READY, environment=environment)


def broker_command(settings: dict[str, str], overrides: Sequence[str]) -> list[str]:
    """The command line of a broker without a settings file."""
    # The file overrides what `odradek start` assumes without one.
    command = module_command("odradek", "start", os.devnull)
    for text in (*(f"{key}={value}" for key, value in settings.items()), *overrides):
        command += ["--override", text]
    return command


def main(arguments: Sequence[str]) -> int:
    options = build_parser().parse_args(list(arguments))
    from odradek.tools.cluster.supervised import (
        SupervisedProcess,
        brokers_know_each_other,
        report,
        supervise,
    )

    ports, zookeeper_port = ports_of(options.port, options.zookeeper_port, options.brokers)
    if ports[-1] > 65_535:
        print(f"odradek cluster: {ports[-1]} is not a port", file=sys.stderr)
        return 1
    data = options.data.absolute()

    def broker(number: int) -> SupervisedProcess:
        settings = broker_settings(number, ports, zookeeper_port, data)
        command = broker_command(settings, options.override)
        return SupervisedProcess(f"broker {number}", command, ready=READY)

    addresses = ",".join(f"{HOST}:{port}" for port in ports)
    report(
        f"{options.brokers} brokers on this machine, for development and tests; broker 0 serves "
        "the coordination to all of them"
    )
    return supervise(
        lambda: ([broker(0)], [broker(number) for number in range(1, options.brokers)]),
        is_ready=lambda: brokers_know_each_other(addresses.split(",")),
        ready_line=f"odradek cluster is ready on {addresses}; "
        f"coordination on {HOST}:{zookeeper_port}; data in {data} "
        f"-- try: echo hello | kcat -P -b {addresses} -t greetings "
        f"&& kcat -C -b {addresses} -t greetings -e",
    )
