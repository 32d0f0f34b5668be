"""`odradek start [CONFIG] [--override KEY=VALUE]...`: a broker in the foreground.

For tests: `odradek start --ephemeral --port 0 --ready-file FILE`.

Exit codes: 0 after SIGTERM or SIGINT, 1 when the settings or the data directories do not allow a
start (one line on stderr gives the reason), 2 for a command line that cannot be parsed.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final

from odradek.bounded_files import system_error_text
from odradek.tools.arguments import APPEND, add_arguments, add_settings_arguments

if TYPE_CHECKING:
    from odradek.broker.node.node import Node
    from odradek.broker.node.process import RunnableNode
    from odradek.broker.settings.broker_settings import BrokerSettings
    from odradek.start.ephemeral import DataFolder
    from odradek.start.ephemeral_security import EphemeralSecurity
    from odradek.testing.node.control.advanced_wheel import AdvancedClock
    from odradek.testing.node.control.listener import ControlListener

LOG_LEVELS: Final = {"DEBUG": "DEBUG", "INFO": "INFO", "WARN": "WARNING", "ERROR": "ERROR"}
"""Kafka's log levels -> those of the standard library."""
ANY_ADDRESS: Final = ("0.0.0.0:", "[::]:")
HOST: Final = "127.0.0.1"
"""Where --port listens."""
PORT_MAX: Final = 65_535
DEFAULT_PORT: Final = 9092
"""Where a broker with --sasl or --tls listens without --port."""
INSTRUMENTED: Final = ("odradek.api.versions", "odradek.api.report")
"""Settings of brokers for tests that need no control channel."""
SHOWN_MAX: Final = 100
"""Characters of a wrong port that are shown."""
DIGITS_MAX: Final = 10
"""Digits that a port or a broker's id may have."""
COLUMNS: Final = 80
"""Without a terminal."""


class Begin:
    """The settings and the clock that a broker begins with.

    settings  of a snapshot, below those of the command line
    ahead_ms  how far its clock was advanced; after its end, that of this time
    """

    __slots__ = ("ahead_ms", "settings")

    def __init__(self, settings: Mapping[str, str], ahead_ms: int = 0) -> None:
        self.settings = settings
        self.ahead_ms = ahead_ms


ReportReady = Callable[[str, tuple[str, ...], str | None], None]
"""(an address for clients, log directories, URL of the control channel or None)"""


def _no_report(address: str, log_dirs: tuple[str, ...], control: str | None) -> None:
    pass


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek start",
        description="Start a broker in the foreground.  Without CONFIG it listens on "
        "127.0.0.1:9092 and keeps its data in ./data.",
        formatter_class=partial(argparse.HelpFormatter, width=_columns() - 2),
    )
    add_settings_arguments(parser, "a server.properties file, as for Kafka")
    add_arguments(parser, "start", {"--port": _port})
    add_arguments(
        parser.add_argument_group("for tests"),
        "start for tests",
        {
            "--user": APPEND,
            "--control": {"nargs": "?", "const": (HOST, 0), "type": _address},
            "--from": {"dest": "snapshot"},
            "--as": {"dest": "release", "choices": ("2.8", "3.9", "4.3")},
        },
    )
    add_arguments(
        parser,
        "start log",
        {
            "--log-format": {"choices": ("plain", "json"), "default": "plain"},
            "--log-level": {"type": str.upper, "choices": tuple(LOG_LEVELS), "default": "INFO"},
        },
    )
    return parser


def _columns() -> int:
    """Columns of the terminal.  argparse finds them too, but imports shutil: 3 ms of a start."""
    text = os.environ.get("COLUMNS", "")
    if text.isdecimal() and int(text) > 0:
        return int(text)
    try:
        return os.get_terminal_size(1).columns or COLUMNS
    except OSError:
        return COLUMNS


def _port(text: str) -> int:
    port = int(text) if text.isdecimal() and len(text) <= DIGITS_MAX else -1
    if not 0 <= port <= PORT_MAX:
        shown = text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
        raise argparse.ArgumentTypeError(f"{shown} is not a port")
    return port


def _address(text: str) -> tuple[str, int]:
    """Host and port of the control channel."""
    host, colon, port = text.rpartition(":")
    if colon and not host:
        raise argparse.ArgumentTypeError(f"{text} is not [HOST:]PORT")
    return host.removeprefix("[").removesuffix("]") or HOST, _port(port)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = build_parser()
    options = parser.parse_args(list(arguments))
    if options.control is not None and not options.ephemeral:
        parser.error("--control is for brokers of tests: it needs --ephemeral")
    if options.control_token_file and options.control is None:
        parser.error("--control-token-file is for --control")
    if options.data is not None and not options.ephemeral:
        parser.error("--data is for brokers of tests: it needs --ephemeral")
    if (options.snapshot or options.save) and not options.ephemeral:
        parser.error("--from and --save are for brokers of tests: they need --ephemeral")
    if (options.sasl is not None or options.tls) and not options.ephemeral:
        parser.error("--sasl and --tls are for brokers of tests: they need --ephemeral")
    if options.user and not options.sasl:
        parser.error("--user is for --sasl")
    security = _security(parser, options)
    if options.ephemeral:
        from odradek.start.ephemeral import OWNED

        for text in options.override:
            if text.partition("=")[0].strip() in OWNED:
                parser.error(f"--ephemeral chooses the folder of the data: not --override {text}")
    return argparse.Namespace(**vars(options), security=security)


def _security(
    parser: argparse.ArgumentParser, options: argparse.Namespace
) -> EphemeralSecurity | None:
    """What --sasl and --tls ask for."""
    if options.sasl is None and not options.tls:
        return None
    if options.config is not None:
        parser.error("--sasl and --tls make the listener: not with CONFIG")
    mechanisms = [name.strip() for name in (options.sasl or "").split(",") if name.strip()]
    if options.sasl is not None and not mechanisms:
        parser.error("--sasl names no mechanism")
    if (options.data or options.snapshot) and any("SCRAM" in name for name in mechanisms):
        parser.error("users of SCRAM are stored in new data: --sasl PLAIN for --data and --from")
    from odradek.start.ephemeral_security import EphemeralSecurity

    try:
        return EphemeralSecurity(mechanisms, options.user or (), has_tls=options.tls)
    except ValueError as error:
        parser.error(str(error))


def _overrides(
    options: argparse.Namespace, folder: str | None, of_snapshot: Mapping[str, str]
) -> list[str]:
    """The overrides of the settings file; later ones take precedence over earlier ones.

    folder  that of an ephemeral broker, or None
    """
    chosen: list[str] = []
    if folder is not None:
        from odradek.start.ephemeral import SETTINGS

        chosen += SETTINGS
    chosen += [f"{name}={value}" for name, value in of_snapshot.items()]
    if options.security is not None:
        chosen += options.security.settings(DEFAULT_PORT if options.port is None else options.port)
    elif options.port is not None:
        listener = f"PLAINTEXT://{HOST}:{options.port}"
        chosen += [f"listeners={listener}", f"advertised.listeners={listener}"]
    if options.release is not None:
        chosen.append(f"odradek.api.versions={options.release}")
    if options.api_report:
        chosen.append(f"odradek.api.report={os.path.abspath(options.api_report)}")
    chosen += options.override
    if folder is not None:
        chosen.append(f"log.dirs={folder}")
    return chosen


def dialled(address: str) -> str:
    """The address that a client on this machine uses for a listener's."""
    for prefix, local in zip(ANY_ADDRESS, ("127.0.0.1:", "[::1]:"), strict=True):
        if address.startswith(prefix):
            return local + address.removeprefix(prefix)
    return address


def settings_file(config: str | None) -> str:
    """Where the settings are from, for the line of a successful start."""
    return "no settings file, so defaults" if config is None else f"settings {config}"


def ready_line(
    addresses: Sequence[str], log_dirs: Sequence[str], source: str, clients: str | None = None
) -> str:
    """The line that reports a successful start: addresses, data, settings, and a command to try.

    clients  where the settings of clients are and the command; None: they need none
    """
    listening = [
        f"{address} (every interface)" if address.startswith(ANY_ADDRESS) else address
        for address in addresses
    ]
    address = dialled(addresses[0])
    line = f"odradek is ready on {', '.join(listening)}; data in {', '.join(log_dirs)}; {source}"
    if clients is not None:
        return f"{line}; {clients}"
    return (
        f"{line} -- try: echo hello | kcat -P -b {address} -t greetings "
        f"&& kcat -C -b {address} -t greetings -e"
    )


def _line_of(
    settings: BrokerSettings,
    addresses: Sequence[str],
    source: str,
    security: EphemeralSecurity | None,
) -> str:
    """The line of a node that is ready, when the files of its clients are written.

    raises  OSError
    """
    if not settings.is_broker:
        return controller_ready_line(settings, addresses)
    clients = None if security is None else security.write_client_files(dialled(addresses[0]))
    return ready_line(addresses, settings.log_dirs, source, clients)


def controller_ready_line(settings: BrokerSettings, addresses: Sequence[str]) -> str:
    """The line that reports the start of a node that is a controller only.

    addresses  on which it serves the coordination; none: it stands by
    """
    quorum = settings.quorum
    assert quorum is not None, "process.roles is set"
    served = f"serves the coordination on {', '.join(addresses)}"
    if not addresses:
        served = f"stands by, the coordination is on {quorum.coordinator.address}"
    return (
        f"odradek is ready: controller {quorum.node_id} {served}; data in "
        f"{settings.metadata_log_dir}"
    )


def main(
    arguments: Sequence[str], report_ready: ReportReady = _no_report, source: str | None = None
) -> int:
    """Start a broker and run it until SIGTERM or SIGINT; returns the exit code.

    report_ready  called once clients are served, unless an option for tests is given
    source        where the settings are from, when CONFIG is not a file
    """
    options = _parse(arguments)
    # Imports create little garbage; `process.run` enables the collector when the broker is ready.
    gc.disable()
    if not (options.ephemeral or options.ready_file or options.stop_at_end_of_input):
        return _run(options, None, Begin({}), report_ready, source)
    from odradek.start import ephemeral

    ready_file = options.ready_file and os.path.abspath(options.ready_file)
    try:
        # Entered first: from now on a signal is no longer the end of the process at once.
        former = options.data and os.path.abspath(options.data)
        with (
            ephemeral.data_folder(former) if options.ephemeral else nullcontext() as folder,
            ExitStack() as stack,
        ):
            if options.stop_at_end_of_input:
                ephemeral.stop_at_end_of_input()
            for option, path in (("--save", options.save), ("--api-report", options.api_report)):
                if path:
                    ephemeral.check_written_file(f"the file of {option}", path)
            begin = _begin(options, folder)
            if options.security is not None:
                assert folder is not None, "it needs --ephemeral"
                stack.callback(options.security.remove)
                options.security.prepare(folder.path)
            if not ready_file:
                return _saved(_run(options, folder, begin), options, folder, begin)
            ephemeral.check_ready_file(ready_file)
            ephemeral.remove_ready_file(ready_file)
            try:
                done = _run(
                    options,
                    folder,
                    begin,
                    lambda address, log_dirs, control: ephemeral.write_ready_file(
                        ready_file,
                        address,
                        log_dirs,
                        control,
                        None if options.security is None else options.security.folder,
                    ),
                )
            finally:
                ephemeral.remove_ready_file(ready_file)
            return _saved(done, options, folder, begin)
    except ephemeral.StoppedEarly:
        return 0
    except OSError as error:
        print(f"odradek: {system_error_text(error)}", file=sys.stderr)
        return 1


def _begin(options: argparse.Namespace, folder: DataFolder | None) -> Begin:
    """Prepare the data folder; returns the settings and the clock that the broker begins with.

    raises  OSError
    """
    if folder is None or not options.snapshot:
        return Begin({}, 0)
    from odradek.tools.snapshot import load

    asked = _overridden(options).get("broker.id", "")
    # Any other text is refused with the settings.
    broker_id = int(asked) if asked.isdecimal() and len(asked) <= DIGITS_MAX else None
    snapshot = load(options.snapshot, folder.path, broker_id)
    chosen = snapshot.choose(broker_id)
    return Begin({**snapshot.settings, "broker.id": str(chosen)}, snapshot.ahead_ms)


def _token(options: argparse.Namespace) -> str | None:
    """The token of the control channel, or None.

    raises  OSError
    """
    from odradek.testing.node.control.listener import TOKEN_VARIABLE, is_token

    if options.control_token_file:
        from odradek.start.ephemeral import control_token

        token, origin = control_token(options.control_token_file), options.control_token_file
    elif TOKEN_VARIABLE in os.environ:
        token, origin = os.environ[TOKEN_VARIABLE], TOKEN_VARIABLE
    else:
        return None
    if not is_token(token):
        raise OSError(f"the token of {origin} is not 16 to 1,000 ASCII characters without blanks")
    return token


def _overridden(options: argparse.Namespace) -> dict[str, str]:
    """The settings of --override."""
    rows = (text.partition("=") for text in options.override)
    return {name.strip(): value.strip() for name, _, value in rows}


def _saved(code: int, options: argparse.Namespace, folder: DataFolder | None, begin: Begin) -> int:
    """The exit code, after a snapshot is written of a broker that stopped well.

    raises  OSError
    """
    if code == 0 and folder is not None and options.save:
        from odradek.tools.snapshot import save

        save(
            [folder.path],
            options.save,
            settings={**begin.settings, **_overridden(options)},
            ahead_ms=begin.ahead_ms,
        )
    return code


def _controlled(
    options: argparse.Namespace, folder: DataFolder, begin: Begin
) -> tuple[ControlListener, AdvancedClock, Callable[..., Node]]:
    """The control channel, the clock that it advances, and what makes the node that it controls.

    raises  StartError
    """
    from odradek.broker.node.start_error import StartError
    from odradek.runtime.clock import SystemClock
    from odradek.testing.node.control.advanced_wheel import AdvancedClock
    from odradek.testing.node.control.composition import controlled_node
    from odradek.testing.node.control.listener import ControlListener

    host, port = options.control
    try:
        control = ControlListener(host, port, _token(options))
    except OSError as error:
        text = f"cannot serve the control channel on {host}:{port}: {system_error_text(error)}"
        raise StartError(text) from error
    clock = AdvancedClock(SystemClock(), begin.ahead_ms)
    return control, clock, controlled_node(control, clock, folder.keep)


def _node_class(written: Mapping[str, str]) -> type[Node]:
    """The class of a node without a control channel, by its settings, which are text."""
    from odradek.broker.node.node import Node

    if not any(written.get(name, "").strip() for name in INSTRUMENTED):
        return Node
    from odradek.testing.node.node import InstrumentedNode

    return InstrumentedNode


def _controller_node(options: argparse.Namespace) -> Callable[..., RunnableNode]:
    """The class of a node that is a controller only.

    raises  StartError for an option that concerns brokers
    """
    from odradek.broker.node.controller_node import ControllerNode
    from odradek.broker.node.start_error import StartError

    for option in ("ephemeral", "forget_dynamic_settings"):
        if getattr(options, option):
            text = f"--{option.replace('_', '-')} is for brokers: process.roles is controller"
            raise StartError(text)
    return ControllerNode


def _notify_service_manager() -> None:
    """Say that clients are served, to systemd if it has started this process."""
    if "NOTIFY_SOCKET" in os.environ:
        from odradek.start import service_manager

        service_manager.notify(service_manager.READY)


def _run(
    options: argparse.Namespace,
    folder: DataFolder | None,
    begin: Begin,
    report_ready: ReportReady = _no_report,
    source: str | None = None,
) -> int:
    """
    folder        of the data of an ephemeral broker, or None
    report_ready  called once clients are served
    source        where the settings are from, when there is no file
    """
    from odradek.broker.fsync import is_fsync_enabled
    from odradek.broker.node.process import run
    from odradek.broker.node.start_error import StartError
    from odradek.broker.settings.load import load_settings
    from odradek.broker.settings.types import SettingsError
    from odradek.runtime.logging import format_line, set_up_logging
    from odradek.start.started_lines import print_line

    has_file = options.config is not None and source is None
    config = os.path.abspath(options.config) if has_file else None

    def on_ready(addresses: tuple[str, ...]) -> None:
        line = _line_of(settings, addresses, source or settings_file(config), options.security)
        fields = {"addresses": addresses, "log_dirs": settings.log_dirs, "config": config}
        address = dialled(addresses[0]) if addresses else ""
        report_ready(address, settings.log_dirs, None if control is None else control.address)
        print_line(format_line(options.log_format, line, fields))
        _notify_service_manager()

    set_up_logging(options.log_format, level=LOG_LEVELS[options.log_level])
    path = None if folder is None else folder.path
    control: ControlListener | None = None
    clock: AdvancedClock | None = None
    try:
        settings = load_settings(options.config, _overrides(options, path, begin.settings))
        if folder is None and not is_fsync_enabled(settings.written):
            raise StartError(
                "odradek.fsync.enable=false is for data that are thrown away: it needs --ephemeral"
            )
        make_node: Callable[..., RunnableNode]
        if not settings.is_broker:
            make_node = _controller_node(options)
        elif options.control is not None:
            assert folder is not None, "--control needs --ephemeral"
            control, clock, make_node = _controlled(options, folder, begin)
        else:
            make_node = _node_class(settings.written)
        if options.forget_dynamic_settings:
            make_node = partial(make_node, forgets_dynamic_settings=True)
        run(settings, on_ready, make_node, writes_bytecode=folder is not None)
        begin.ahead_ms = 0 if clock is None else clock.ahead_ms
    except (SettingsError, StartError) as error:
        text = error.line if isinstance(error, SettingsError) else str(error)
        line = format_line(options.log_format, f"odradek: {text}", {}, level=logging.CRITICAL)
        print(line, file=sys.stderr)
        return 1
    return 0
