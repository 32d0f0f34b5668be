"""`odradek container-start`: the broker of a container, from its environment.

Lines that others wait for are printed on stdout when the broker serves clients; topics of
KAFKA_CREATE_TOPICS are created then.

Exit codes: those of `odradek start`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from threading import Thread
from typing import Final

from odradek.bounded_files import read_file
from odradek.broker.settings.types import SettingsError
from odradek.container.config_command import add_variables, check, error_line
from odradek.container.environment import ContainerConfig
from odradek.container.formatting import format_directories
from odradek.container.sources import read_config, read_properties
from odradek.container.zookeeper_command import serve
from odradek.container.zookeeper_config import zookeeper_properties
from odradek.launcher import module_command
from odradek.runtime.java_properties import PropertiesError, parse_properties
from odradek.start import main as start
from odradek.storage.checkpoints.meta_properties import BYTES_MAX, META_PROPERTIES_FILE
from odradek.tools.settings_arguments import override

STARTED: Final = (
    "[KafkaServer id={broker_id}] started (kafka.server.KafkaServer)",
    "[KafkaRaftServer nodeId={broker_id}] Kafka Server started (kafka.server.KafkaRaftServer)",
    "[BrokerServer id={broker_id}] Transitioning from RECOVERY to RUNNING",
)
"""What programs that start containers of Kafka wait for: in ZooKeeper mode, in KRaft mode, and
Testcontainers."""


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="odradek container-start",
        description="Start the broker of a container with the settings that `odradek "
        "container-config` prints.",
    )
    add_variables(parser)
    parser.add_argument(
        "--config", metavar="FILE", help="a file with the settings, instead of the environment"
    )
    parser.add_argument(
        "--override",
        action="append",
        type=override,
        default=[],
        metavar="KEY=VALUE",
        help="a setting that takes precedence; may be repeated",
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Start the broker and run it until SIGTERM or SIGINT; returns the exit code."""
    options = build_parser().parse_args(list(arguments))
    environment = {**os.environ, **dict(options.variables)}
    try:
        zookeeper = zookeeper_properties(environment)
        if zookeeper is not None:
            return serve(zookeeper, "the environment")
        config = read_config(environment)
        settings = _settings(config, options)
    except (SettingsError, OSError) as error:
        print(f"odradek: {error_line(error)}", file=sys.stderr)
        return 1
    code = format_directories(settings, config.cluster_id)
    if code != 0:
        return code
    words = [options.config or os.devnull, "--log-level", config.log_level]
    if options.config is None:
        words += _overrides(f"{name}={text}" for name, text in config.settings.items())
    words += _overrides(options.override)

    def report_ready(address: str, log_dirs: tuple[str, ...], control: str | None) -> None:
        broker_id = _broker_id(log_dirs[0])
        for line in STARTED:
            print(line.format(broker_id=broker_id), flush=True)
        if config.topics and address:
            # Containers often have no IPv6; who listens on each of its interfaces has IPv4, too.
            local = address.replace("[::1]:", "127.0.0.1:")
            Thread(target=_create_topics, args=(local, environment), daemon=True).start()

    return start(words, report_ready)


def _overrides(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in ("--override", text)]


def _settings(config: ContainerConfig, options: argparse.Namespace) -> dict[str, str]:
    """The settings that the node starts with.

    raises  SettingsError, OSError
    """
    if options.config is None:
        check(config)
        for warning in config.warnings:
            print(f"odradek: {warning}", file=sys.stderr)
        settings = dict(config.settings)
    else:
        settings = read_properties(options.config)
    for text in options.override:
        name, _, value = text.partition("=")
        settings[name.strip()] = value
    return settings


def _broker_id(log_dir: str) -> str:
    """The id that the broker has written, which may be a generated one."""
    try:
        written = parse_properties(
            read_file(os.path.join(log_dir, META_PROPERTIES_FILE), BYTES_MAX)
        )
    except (OSError, PropertiesError):
        written = {}
    return written.get("broker.id") or written.get("node.id") or "0"


def _create_topics(address: str, environment: Mapping[str, str]) -> None:
    """Create the topics, in a process of its own: it waits, and the loop must not."""
    command = module_command("odradek.container.create_topics", address)
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        text = f"odradek: not every topic of KAFKA_CREATE_TOPICS exists (exit {done.returncode})"
        print(text, file=sys.stderr, flush=True)
