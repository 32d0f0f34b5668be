"""The frame of a tool's action: its command line, the version, the errors that all tools share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from odradek.tools.client import ClientError
from odradek.tools.errors import ToolError
from odradek.tools.options import Flag, Options, OptionsError, refuse
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
