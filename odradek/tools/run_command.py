"""The frame of a tool's action: its command line, the version, the errors that all tools share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import closing

from odradek.tools.client import Client, ClientError
from odradek.tools.client_config import open_client
from odradek.tools.errors import ToolError
from odradek.tools.options import Flag, Options, OptionsError, parse_with, refuse
from odradek.tools.run import KAFKA_VERSION, run_tool


def run_command(
    arguments: Sequence[str],
    flags: Sequence[Flag],
    parse_options: Callable[[Sequence[str]], Options],
    act: Callable[[Options], int],
) -> int:
    """Parse a command line, print the version if it asks for that, else act; the exit code.

    act  returns the exit code.  An OptionsError that it raises is refused as one of the parser; a
         ToolError or ClientError is printed as it is, on stderr, and the exit code is 1
    """

    def run(words: Sequence[str]) -> int:
        try:
            options = parse_options(words)
            if options.has("version"):
                print(KAFKA_VERSION)
                return 0
            return act(options)
        except OptionsError as error:
            return refuse(error, flags)
        except (ToolError, ClientError) as error:
            print(error, file=sys.stderr)
            return 1

    return run_tool(run, arguments)


def run_with_client(
    arguments: Sequence[str],
    what_it_does: str,
    act: Callable[[Client, Options], None],
    flags: Sequence[Flag],
    required: Sequence[str] = (),
) -> int:
    """Run an action with a client of the cluster of `--bootstrap-server`; the exit code.

    required  names of options besides `--bootstrap-server`
    """

    def parse_options(words: Sequence[str]) -> Options:
        return parse_with(("bootstrap-server", *required), flags, words, what_it_does)

    def connect(options: Options) -> int:
        bootstrap = options.value("bootstrap-server")
        assert bootstrap is not None, "parse_options requires one"
        with closing(open_client(bootstrap, options.value("command-config"))) as client:
            act(client, options)
        return 0

    return run_command(arguments, flags, parse_options, connect)
