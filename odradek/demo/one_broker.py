"""A demo with a broker of its own, and the verdict at the end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence

from odradek.demo.claims import Claim, DemoError, print_claims
from odradek.testing.broker import Broker
from odradek.testing.control import ControlFailed
from odradek.tools.console.library import library
from odradek.tools.errors import ToolError


def run_demo(introduction: str, work: Callable[[Broker], Sequence[Claim]]) -> int:
    """Print an introduction, start a broker, work, and print the verdict; returns the exit code.

    raises  LibraryMissingError, BrokerFailed; KeyboardInterrupt after SIGTERM or SIGINT
    """
    library()
    print(introduction, flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    broker = Broker()
    try:
        return print_claims(work(broker.start()))
    except (ToolError, ControlFailed, DemoError) as error:
        print(f"FAIL: {error}")
        return 1
    finally:
        broker.close()
