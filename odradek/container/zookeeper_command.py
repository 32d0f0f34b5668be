"""`odradek zookeeper-server-start FILE`: the coordination of brokers alone, as a ZooKeeper.

Brokers with zookeeper.connect, and other clients of ZooKeeper, use it as one server.

Exit codes: those of `odradek start`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.bounded_files import read_file, system_error_text
from odradek.broker.settings.types import SettingsError
from odradek.container.names import EnvironmentRefused
from odradek.container.node_data import format_directories
from odradek.container.zookeeper_config import coordination_settings
from odradek.runtime.java_properties import PropertiesError, parse_properties
from odradek.start.command import main as start
from odradek.tools.arguments import add_override

FILE_BYTES_MAX: Final = 4 << 20
DATA_OF_APACHE: Final = "version-2"
"""The folder in which Apache ZooKeeper keeps its snapshots."""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek zookeeper-server-start",
        description="Serve the coordination of brokers to clients of ZooKeeper: one server, "
        "without a broker.  clientPort and dataDir of the file count.",
    )
    parser.add_argument("-daemon", action="store_true", help="refused: run it in the background")
    parser.add_argument("config", metavar="FILE", help="a zookeeper.properties file")
    add_override(parser, "a setting that overrides the file; may be repeated")
    return parser


def main(arguments: Sequence[str]) -> int:
    parser = build_parser()
    options = parser.parse_args(list(arguments))
    if options.daemon:
        parser.error("-daemon: it runs in the foreground; start it in the background")
    try:
        properties = parse_properties(read_file(options.config, FILE_BYTES_MAX))
    except OSError as error:
        print(f"odradek: {system_error_text(error)}", file=sys.stderr)
        return 1
    except PropertiesError as error:
        print(f"odradek: cannot read {options.config}: {error}", file=sys.stderr)
        return 1
    for text in options.override:
        name, _, value = text.partition("=")
        properties[name.strip()] = value
    return serve(properties, options.config)


def serve(properties: Mapping[str, str], source: str) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code.

    source  where the properties are from, for errors
    """
    try:
        settings = coordination_settings(properties, source)
        folder = settings["log.dirs"]
        if os.path.exists(os.path.join(folder, DATA_OF_APACHE)):
            allowed = f"{folder} has data of Apache ZooKeeper, which are not read here"
            raise EnvironmentRefused(source, "dataDir", allowed)
    except SettingsError as error:
        print(f"odradek: {error.line}", file=sys.stderr)
        return 1
    code = format_directories(settings, None)
    if code != 0:
        return code
    words = [os.devnull]
    for name, text in settings.items():
        words += ["--override", f"{name}={text}"]
    return start(words)
