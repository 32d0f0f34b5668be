"""The frame of a tool's action: its command line, the version, the errors that all tools share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.tools.client import Client
from odradek.tools.client_config import open_client
from odradek.tools.options import Flag, Options, OptionsError, parse, refuse, require
from odradek.tools.run import run_tool


def run_command(
    arguments: Sequence[str],
    flags: Sequence[Flag],
    parse_options: Callable[[Sequence[str]], Options],
    act: Callable[[Options], int],
) -> int:
    """Parse a command line and act; the exit code.

    parse_options, act  an OptionsError of either, also for help and version, is refused
    act                 returns the exit code
    """

    def run(words: Sequence[str]) -> int:
        try:
            return act(parse_options(words))
        except OptionsError as error:
            return refuse(error, flags)

    return run_tool(run, arguments)


def client_of(options: Options) -> Client:
    """Create a client of the cluster of `--bootstrap-server`, or of the brokers of `--zookeeper`.

    raises  OptionsError; ClientError for an invalid address, file or property
    """
    zookeeper = options.value("zookeeper")
    if zookeeper is None:
        bootstrap = options.required("bootstrap-server")
    else:
        from odradek.tools.zookeeper import bootstrap_of

        bootstrap = bootstrap_of(zookeeper)
    return open_client(bootstrap, options.value("command-config"))


def run_with_client(
    arguments: Sequence[str],
    what_it_does: str,
    act: Callable[[Client, Options], int | None],
    flags: Sequence[Flag],
    required: Sequence[str] = (),
) -> int:
    """Run an action with a client of the cluster of `--bootstrap-server`; the exit code.

    act       returns the exit code; None: 0
    required  names of options besides `--bootstrap-server`
    """

    def parse_options(words: Sequence[str]) -> Options:
        options = parse(flags, words, what_it_does)
        require(options, "bootstrap-server", *required)
        return options

    def connect(options: Options) -> int:
        with client_of(options) as client:
            return act(client, options) or 0

    return run_command(arguments, flags, parse_options, connect)
