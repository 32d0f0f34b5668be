"""The broker as a process: its loop, its signals, and what ends it."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Final, Protocol

import uvloop

from odradek.broker.node.node import Node
from odradek.broker.node.start_error import StartError, StartInterrupted
from odradek.broker.server.bound_listener import BoundListener
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.topic_config import ignored_format
from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.coordination.state_files import CoordinationDamaged
from odradek.storage.checkpoints.meta_properties import MetaPropertiesError
from odradek.storage.directories.log_directory import DirectoryInUse
from odradek.storage.directories.log_manager import DuplicateLog, NoDirectoryLeft

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
GC_THRESHOLDS: Final = (20_000, 1, 50)
"""Requests create no reference cycles; a collection every 700 objects costs 2 % of a small request.
A collection of the second generation walks 60,000 objects (5 ms); with Python's default of 10 for
the second threshold it would walk 240,000 while the loop waits.  The third generation is collected
about as rarely as with 10 and 10."""

SWITCH_S: Final = 0.001
"""How long a thread may hold the interpreter while the loop waits for it.  With Python's default of
5 ms, each system call of a request would take that long while a thread checks a batch."""

logger = logging.getLogger("odradek")


class RunnableNode(Protocol):
    """A broker, or a node that is a controller only."""

    @property
    def listeners(self) -> Sequence[BoundListener]:
        """What it listens on."""

    def start(self) -> None:
        """Returns when it serves."""

    async def run_until_stopped(self) -> None:
        """Serve until a signal, then stop."""

    def request_stop(self) -> None:
        """Begin to stop, from a signal."""

    async def stop(self) -> None:
        """Stop, also after a start that has failed."""


def run(
    settings: BrokerSettings,
    on_ready: Callable[[tuple[str, ...]], None],
    make_node: Callable[..., RunnableNode] = Node,
    *,
    writes_bytecode: bool = False,
) -> None:
    """Start a broker and serve until SIGTERM or SIGINT.

    on_ready         called with the addresses of the listeners, as `host:port`, once clients are
                     served
    make_node        called with the arguments of `Node`
    writes_bytecode  whether modules that a request imports are compiled into files, as those of the
                     start are: for brokers that are started often and end soon
    raises           StartError
    """
    quorum_warning = None if settings.quorum is None else settings.quorum.warning
    for warning in (*settings.warnings, ignored_format(settings.written), quorum_warning):
        if warning is not None:
            logger.warning("%s", warning)
    signals = StopSignals()
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        node = make_node(loop, settings, should_stop=signals.have_arrived)
        try:
            node.start()
        except BaseException:
            loop.run_until_complete(node.stop())
            raise
        # The objects of the start are never freed, so no collection needs to walk them.  Collecting
        # them once would take 10 ms of the start; the 140 KB of its garbage stay.
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()
        sys.setswitchinterval(SWITCH_S)
        # A full disk would cut the file that a first import writes, which no later start can read.
        sys.dont_write_bytecode |= not writes_bytecode
        loop.run_until_complete(_serve(loop, node, signals, on_ready))
    except StartInterrupted:
        logger.warning("stopped by a signal before the broker was ready")
    except (
        CoordinationDamaged,
        CoordinationError,
        DirectoryInUse,
        DuplicateLog,
        MetaPropertiesError,
        NoDirectoryLeft,
        OSError,
    ) as error:
        raise StartError(str(error) or type(error).__name__) from error
    finally:
        loop.close()


async def _serve(
    loop: asyncio.AbstractEventLoop,
    node: RunnableNode,
    signals: StopSignals,
    on_ready: Callable[[tuple[str, ...]], None],
) -> None:
    # Only once the loop runs: its handler would lose a signal that arrives earlier.
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, node.request_stop)
    if signals.have_arrived():
        node.request_stop()
    else:
        on_ready(tuple(listener.address for listener in node.listeners))
    await node.run_until_stopped()


class StopSignals:
    """Counts SIGTERM and SIGINT until the loop runs; they interrupt nothing."""

    def __init__(self) -> None:
        self._count = 0
        for number in STOP_SIGNALS:
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._count += 1

    def have_arrived(self) -> bool:
        return self._count > 0
