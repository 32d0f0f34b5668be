"""`odradek explain-lookup`: how a broker finds the record of an offset or a time, hop by hop.

With --dir it reads the files of a log directory, of a stopped or a running broker, and changes
nothing.  With --bootstrap-server it asks the leader, which does not tell about its indexes.

Exit codes: 0 a record was found; 1 there is none, or the log cannot be read; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from odradek.protocol.topic_partition import TopicPartition
from odradek.storage.files.names import folder_name
from odradek.tools.arguments import APPEND, add_arguments
from odradek.tools.client import ClientError
from odradek.tools.client_config import open_client
from odradek.tools.errors import ToolError
from odradek.tools.explain_lookup import log_lookup, wire_lookup
from odradek.tools.explain_lookup.log_lookup import Lookup, UnreadableLogError
from odradek.tools.options import INT32_MAX, INT64_MAX
from odradek.tools.run import run_tool

DEFAULT_DIRECTORY: Final = "data"
DEFAULT_ADDRESS: Final = "127.0.0.1:9092"
_DIGITS: Final = re.compile(r"[0-9]{1,19}")


def _number(text: str, largest: int) -> int:
    if not _DIGITS.fullmatch(text) or int(text) > largest:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to {largest}")
    return int(text)


def _partition(text: str) -> int:
    return _number(text, INT32_MAX)


def _offset(text: str) -> int:
    return _number(text, INT64_MAX)


def _time_ms(text: str) -> int:
    if _DIGITS.fullmatch(text):
        return _number(text, INT64_MAX)
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"'{text}' is neither milliseconds since 1970 nor a time such as 2026-01-31T12:00:00Z"
        ) from None
    return int(time.timestamp() * 1000)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek explain-lookup",
        description="Print the hops by which the record of an offset or of a time is found.",
        epilog=f"Without --dir and --bootstrap-server: the log directory {DEFAULT_DIRECTORY} if it "
        f"has the partition, or else the broker at {DEFAULT_ADDRESS}. "
        "Exit codes: 0 found, 1 no such record or not readable, 2 wrong usage.",
    )
    add_arguments(parser, "explain-lookup", {"--partition": _partition})
    target = parser.add_mutually_exclusive_group(required=True)
    add_arguments(target, "explain-lookup target", {"--offset": _offset, "--time": _time_ms})
    place = parser.add_mutually_exclusive_group()
    add_arguments(place, "explain-lookup place", {"--dir": APPEND})
    add_arguments(parser, "explain-lookup client")
    return parser


def main(arguments: Sequence[str]) -> int:
    options = build_parser().parse_args(list(arguments))

    def act(_: Sequence[str]) -> int:
        try:
            return _report(_look_up(options))
        except (UnreadableLogError, ToolError, ClientError) as error:
            print(error, file=sys.stderr)
            return 1

    return run_tool(act, arguments)


def _look_up(options: argparse.Namespace) -> Lookup:
    directories, address = options.dir, options.bootstrap_server
    if directories is None and address is None:
        name = folder_name(options.topic, options.partition)
        if Path(DEFAULT_DIRECTORY, name).is_dir():
            directories = [DEFAULT_DIRECTORY]
    if directories is not None:
        folder = log_lookup.find_folder(directories, options.topic, options.partition)
        if options.offset is not None:
            return log_lookup.look_up_offset(folder, options.offset)
        return log_lookup.look_up_time(folder, options.time)
    partition = TopicPartition(options.topic, options.partition)
    client = open_client(address or DEFAULT_ADDRESS, options.command_config)
    try:
        if options.offset is not None:
            return wire_lookup.look_up_offset(client, partition, options.offset)
        return wire_lookup.look_up_time(client, partition, options.time)
    finally:
        client.close()


def _report(lookup: Lookup) -> int:
    for number, hop in enumerate(lookup.hops, 1):
        print(f"{number}. {hop}")
    if lookup.offset is None:
        print("no such record")
        return 1
    print(f"record: offset {lookup.offset}, timestamp {lookup.timestamp_ms}")
    return 0
