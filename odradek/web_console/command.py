"""`odradek console`: serves a web console for one or more clusters.

Exit codes: 0 after a signal; 1 failure; 2 an invalid command line.  The reason is on stderr.
Kafka has no such tool.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from odradek.bounded_files import read_file, system_error_text
from odradek.extras import missing_library
from odradek.tools.client_config import read_client_config
from odradek.tools.errors import ToolError
from odradek.tools.options import HELP_FLAGS, Options, OptionsError, parse, read_flags, require
from odradek.tools.run_command import run_command

if TYPE_CHECKING:
    from odradek.web_console.access import Users
    from odradek.web_console.cluster import ShownCluster
    from odradek.web_console.records.registry import SchemaRegistry

WHAT_IT_DOES: Final = "This tool serves a web console for Kafka clusters."
DEFAULT_LISTEN: Final = "127.0.0.1:8080"
USERS_BYTES_MAX: Final = 1 << 20
SHUTDOWN_S: Final = 1
"""Live pages are closed after it."""
CONNECTIONS_MAX: Final = 200
FLAGS: Final = (*HELP_FLAGS, *read_flags("console"))
_NAMED: Final = re.compile(r"([A-Za-z0-9._-]+)=(.*)", re.DOTALL)
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def main(arguments: Sequence[str]) -> int:
    def parse_options(words: Sequence[str]) -> Options:
        options = parse(FLAGS, words, WHAT_IT_DOES)
        require(options, "bootstrap-server")
        return options

    return run_command(arguments, FLAGS, parse_options, _act)


def _act(options: Options) -> int:
    host, port = _listen(options)
    try:
        import uvicorn

        from odradek.web_console.application import Console, ConsoleServer, new_application
        from odradek.web_console.cluster import ShownCluster
    except ModuleNotFoundError as error:
        raise ToolError(missing_library(error.name or "of the console", "console")) from error
    users = _users(options)
    if not _is_loopback(host) and users is None and not options.has("insecure"):
        raise OptionsError(
            f"--listen {host}: others than this machine can reach it; it needs --users, or "
            "--insecure"
        )
    if options.has("tls-key") and not options.has("tls-certificate"):
        raise OptionsError("--tls-key needs --tls-certificate")
    allowed_hosts = _allowed_hosts(options)
    configs = {
        name: read_client_config(path) for name, path in _named(options, "command-config").items()
    }
    clusters = [
        ShownCluster(name, bootstrap, {**configs.get("", {}), **configs.get(name, {})})
        for name, bootstrap in _clusters(options).items()
    ]
    unused = sorted(set(configs) - {"", *(cluster.name for cluster in clusters)})
    if unused:
        raise OptionsError(f"--command-config: there is no cluster '{unused[0]}'")
    registries = _registries(options, clusters)
    console = Console(clusters, registries, allows_changes=options.has("allow-changes"))
    application = new_application(console, [*allowed_hosts, host.lower()], users)
    config = uvicorn.Config(
        application,
        http="h11",
        ws="none",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        # The log of changes names who connects, and not whom a header names.
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=SHUTDOWN_S,
        ssl_certfile=options.value("tls-certificate"),
        ssl_keyfile=options.value("tls-key"),
    )
    try:
        config.load()
    except OSError as error:
        raise ToolError(f"--tls-certificate, --tls-key: {system_error_text(error)}") from error
    try:
        listener = socket.create_server((host, port), family=_family(host))
    except OSError as error:
        raise ToolError(f"cannot listen on {host}:{port}: {system_error_text(error)}") from error
    with listener:
        scheme = "https" if options.has("tls-certificate") else "http"
        shown = f"[{host}]" if ":" in host else host
        print(f"serving on {scheme}://{shown}:{listener.getsockname()[1]}", flush=True)
        ConsoleServer(config, console).run(sockets=[listener])
    return 0


def _listen(options: Options) -> tuple[str, int]:
    text = options.value("listen") or DEFAULT_LISTEN
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise OptionsError(f"--listen: '{text}' is not HOST:PORT or PORT")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _allowed_hosts(options: Options) -> list[str]:
    """raises  OptionsError"""
    names = options.values("allowed-host")
    for name in names:
        if not _HOST_NAME.fullmatch(name):
            raise OptionsError(f"--allowed-host: '{name}' is not a name of a host, without a port")
    return names


def _clusters(options: Options) -> dict[str, str]:
    """Bootstrap addresses by name of the cluster.

    raises  OptionsError
    """
    clusters: dict[str, str] = {}
    for text in options.values("bootstrap-server"):
        match = _NAMED.fullmatch(text)
        if not match and "=" in text:
            # No address has this character.
            raise OptionsError(
                f"--bootstrap-server: '{text.partition('=')[0]}' is not a name of letters, digits, "
                "'.', '_' and '-'"
            )
        name, bootstrap = match.groups() if match else ("", text)
        if not match:
            name = "cluster" if not clusters else f"cluster-{len(clusters) + 1}"
        if name in clusters:
            raise OptionsError(f"--bootstrap-server: two clusters are called '{name}'")
        clusters[name] = bootstrap
    return clusters


def _named(options: Options, flag: str) -> dict[str, str]:
    """The values of a flag by name of the cluster; without a name: of all."""
    matches = [(_NAMED.fullmatch(text), text) for text in options.values(flag)]
    return {match[1] if match else "": match[2] if match else text for match, text in matches}


def _registries(options: Options, clusters: Sequence[ShownCluster]) -> dict[str, SchemaRegistry]:
    """Registries by name of the cluster.

    raises  ClientError
    """
    urls = _named(options, "schema-registry")
    if not urls:
        return {}
    from odradek.web_console.records.registry import SchemaRegistry

    return {
        cluster.name: SchemaRegistry(urls.get(cluster.name, urls.get("", "")), cluster.configs)
        for cluster in clusters
        if cluster.name in urls or "" in urls
    }


def _users(options: Options) -> Users | None:
    """raises  OptionsError"""
    path = options.value("users")
    if path is None:
        return None
    from odradek.web_console.access import Users

    try:
        lines = read_file(path, USERS_BYTES_MAX).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise OptionsError(f"--users: {path} cannot be read: {reason}") from error
    hashes: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, text = line.strip().partition(":")
        if not name or not re.fullmatch(r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}", text):
            raise OptionsError(f"--users: line {number} of {path} is not name:hash with bcrypt")
        hashes[name] = text.encode()
    if not hashes:
        raise OptionsError(f"--users: {path} has no user")
    return Users(hashes)
