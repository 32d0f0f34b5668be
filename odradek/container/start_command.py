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

from odradek.broker.settings.types import SettingsError
from odradek.container.config_command import add_variables, check, error_line
from odradek.container.environment import ContainerConfig
from odradek.container.node_data import format_directories, store_users
from odradek.container.sources import read_config, read_properties
from odradek.container.zookeeper_command import serve
from odradek.container.zookeeper_config import zookeeper_properties
from odradek.launcher import module_command
from odradek.start.command import main as start
from odradek.start.started_lines import print_started_lines
from odradek.tools.arguments import add_arguments, add_override


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek container-start",
        description="Start the broker of a container with the settings that `odradek "
        "container-config` prints.",
    )
    add_variables(parser)
    add_arguments(parser, "container-start")
    add_override(parser, "a setting that takes precedence; may be repeated")
    return parser


def main(arguments: Sequence[str]) -> int:
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
    code = format_directories(
        settings, config.cluster_id, keeps_stored_id=options.keep_cluster_id, users=config.users
    )
    if code != 0:
        return code
    try:
        store_users(settings, config.users)
    except (SettingsError, OSError) as error:
        print(f"odradek: {error_line(error)}", file=sys.stderr)
        return 1
    words = [options.config or os.devnull, "--log-level", config.log_level]
    if options.config is None:
        words += _overrides(f"{name}={text}" for name, text in config.settings.items())
    words += _overrides(options.override)

    def report_ready(address: str, log_dirs: tuple[str, ...], control: str | None) -> None:
        print_started_lines(log_dirs[0])
        if config.topics and address:
            # Containers often have no IPv6; who listens on each of its interfaces has IPv4, too.
            local = address.replace("[::1]:", "127.0.0.1:")
            Thread(target=_create_topics, args=(local, environment), daemon=True).start()

    source = "settings of the environment (odradek container-config prints them)"
    return start(words, report_ready, None if options.config else source)


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


def _create_topics(address: str, environment: Mapping[str, str]) -> None:
    """Create the topics, in a process of its own: it waits, and the loop must not."""
    command = module_command("odradek.container.create_topics", address)
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        text = f"odradek: not every topic of KAFKA_CREATE_TOPICS exists (exit {done.returncode})"
        print(text, file=sys.stderr, flush=True)
