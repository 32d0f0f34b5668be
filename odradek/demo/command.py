"""`odradek demo NAME`: runs brokers on this machine and shows what they do when something fails.

    isr-cut      the followers of a partition are cut from their leader, with acks -1, 1 and 0
    idempotence  a producer repeats batches, since its connections are cut
    eos          a program that copies in transactions is killed

Exit codes: 0 when everything was as it should be (PASS), 1 when not (FAIL) or when the cluster
cannot run, 2 for a command line that cannot be parsed, 130 after SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from odradek.bounded_files import system_error_text
from odradek.tools.arguments import add_arguments

LAG_MS_DEFAULT: Final = 10_000
LAG_MS_MIN: Final = 2_000
INTERRUPTED: Final = 130


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek demo",
        description="Run brokers on this machine and show what they do when something fails.",
    )
    demos = parser.add_subparsers(dest="demo", required=True, metavar="NAME")
    isr_cut = demos.add_parser(
        "isr-cut",
        help="cut the followers of a partition from its leader",
        description="Producers with acks=-1, 1 and 0 send to one partition while its followers are "
        "cut from its leader (their sessions go on).  acks=-1 waits until the leader has removed "
        "the followers from the in-sync replicas; with min.insync.replicas=2 it fails from then "
        "on; acks=1 and acks=0 never wait.  Ends in PASS or FAIL.",
    )
    lag = {"type": _lag_ms, "default": LAG_MS_DEFAULT}
    add_arguments(isr_cut, "demo isr-cut", {"--lag-ms": lag, "--data": Path})
    demos.add_parser(
        "idempotence",
        help="cut the connections of a producer, which then repeats batches",
        description="A producer sends to one broker, with enable.idempotence=false and then with "
        "true, and its connection is cut in place of every fifth response.  Without idempotence "
        "the batches that it repeats are stored twice; with it, never.  Ends in PASS or FAIL.",
    )
    demos.add_parser(
        "eos",
        help="kill a program that copies a topic in transactions",
        description="A program reads a topic and writes to another, with the offsets that it has "
        "read in the same transaction; it is killed in the middle of one, and started again.  "
        "read_committed consumers see each record once, read_uncommitted ones see what was "
        "aborted, too.  Ends in PASS or FAIL.",
    )
    return parser


def _lag_ms(text: str) -> int:
    lag_ms = int(text) if text.isdecimal() else 0
    if lag_ms < LAG_MS_MIN:
        raise argparse.ArgumentTypeError(f"{text} is not a number of {LAG_MS_MIN} or more")
    return lag_ms


def main(arguments: Sequence[str]) -> int:
    options = build_parser().parse_args(list(arguments))
    from odradek.testing.broker import BrokerFailed
    from odradek.tools.cluster.supervised import StopRequested, SupervisionError
    from odradek.tools.console.library import LibraryMissingError

    try:
        return _run(options)
    except StopRequested:
        return INTERRUPTED
    except (LibraryMissingError, SupervisionError, BrokerFailed) as error:
        print(f"odradek demo: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"odradek demo: {system_error_text(error)}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    if options.demo == "idempotence":
        from odradek.demo.idempotence import run as run_idempotence

        return run_idempotence()
    if options.demo == "eos":
        from odradek.demo.eos import run as run_eos

        return run_eos()
    from odradek.demo.isr_cut import run as run_isr_cut

    return run_isr_cut(options.lag_ms, options.data)
