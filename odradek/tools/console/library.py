"""The client library under the console tools: confluent-kafka, of the extra `tools`."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any, Final

from odradek.tools.console.errors import CONFIG_EXCEPTION, KAFKA_EXCEPTION, ConsoleError, log

MISSING: Final = (
    "this command needs the library confluent-kafka: pip install 'odradek[tools]' "
    "(or: pip install confluent-kafka)"
)
LOGGER: Final = "librdkafka"
TELL_AGAIN_S: Final = 60.0
"""Before an error of one kind is told again."""


class LibraryMissingError(Exception):
    """confluent-kafka is not installed; the text says what to do."""


def library() -> Any:
    """The module.

    raises  LibraryMissingError
    """
    try:
        import confluent_kafka
    except ImportError as error:
        raise LibraryMissingError(MISSING) from error
    return confluent_kafka


def build(kind: str, configs: dict[str, Any]) -> Any:
    """A client of the library.

    kind     Producer or Consumer
    raises   LibraryMissingError; ConsoleError when the configs do not go together
    """
    module = library()
    check_addresses(kind, configs["bootstrap.servers"])
    whose = f"[{kind} clientId={configs['client.id']}]"
    configs = {
        **configs,
        # Its own lines on stderr say again what the callback tells.
        "log_level": 0,
        "error_cb": _teller(whose),
    }
    try:
        return getattr(module, kind)(configs)
    except module.KafkaException as error:
        raise ConsoleError(CONFIG_EXCEPTION, error.args[0].str()) from error


def _teller(whose: str) -> Callable[[Any], None]:
    told_at: dict[str, float] = {}

    def tell(error: Any) -> None:
        # Every try to connect gives an error; a person needs to read it now and then.
        now = time.monotonic()
        name = error.name()
        if name not in told_at or now - told_at[name] > TELL_AGAIN_S:
            told_at[name] = now
            log("ERROR" if error.fatal() else "WARN", f"{whose} {error.str()}", LOGGER)

    return tell


def check_addresses(kind: str, servers: str) -> None:
    """Whether there is anything to connect to, which the library would look for until the end.

    raises  ConsoleError
    """
    found = False
    for address in filter(None, (part.strip() for part in servers.split(","))):
        host, colon, port = address.rpartition("://")[2].rpartition(":")
        if not colon or not port.isdecimal() or not host:
            reason = f"Invalid url in bootstrap.servers: {address}"
            raise _not_constructed(kind, reason)
        try:
            socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        except (OSError, UnicodeError, OverflowError):
            log(
                "WARN",
                f"Couldn't resolve server {address} from bootstrap.servers as DNS resolution "
                f"failed for {host}",
                "org.apache.kafka.clients.ClientUtils",
            )
        else:
            found = True
    if not found:
        raise _not_constructed(kind, "No resolvable bootstrap urls given in bootstrap.servers")


def _not_constructed(kind: str, reason: str) -> ConsoleError:
    return ConsoleError(
        KAFKA_EXCEPTION,
        f"Failed to construct kafka {kind.lower()}\nCaused by: {CONFIG_EXCEPTION}: {reason}",
    )
