"""Properties files for the connection of a tool to the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from odradek.bounded_files import read_file
from odradek.tools.client import CLIENT_ID, Client, ClientError
from odradek.tools.security.errors import SecurityError

if TYPE_CHECKING:
    from odradek.tools.security.client_security import ClientSecurity

FILE_BYTES_MAX: Final = 4 << 20
SECURITY_PROTOCOL: Final = "security.protocol"
PLAINTEXT: Final = "PLAINTEXT"


class InvalidPropertiesError(Exception):
    """The file is not a properties file; the message is one line."""


def read_properties(path: str) -> dict[str, str]:
    """The keys and values of a properties file.

    raises  OSError, InvalidPropertiesError
    """
    from odradek.runtime.java_properties import PropertiesError, parse_properties

    text = read_file(path, FILE_BYTES_MAX)
    try:
        return parse_properties(text)
    except PropertiesError as error:
        raise InvalidPropertiesError(str(error)) from error


def read_client_config(path: str) -> dict[str, str]:
    """The properties of a `--command-config`.

    raises  ClientError for a file that cannot be read
    """
    try:
        return read_properties(path)
    except (OSError, InvalidPropertiesError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ClientError(f"{path} cannot be read: {reason}") from error


def new_client(bootstrap: str, configs: Mapping[str, str]) -> Client:
    """Create a client; nothing is connected yet.

    configs  Kafka's client properties, of which `client.id` and those of TLS and SASL are used
    raises   ClientError for an invalid address or property
    """
    security: ClientSecurity | None = None
    if configs.get(SECURITY_PROTOCOL, PLAINTEXT).strip().upper() != PLAINTEXT:
        from odradek.tools.security.client_security import ClientSecurity

        try:
            security = ClientSecurity(configs)
        except SecurityError as error:
            raise ClientError(str(error)) from error
    return Client(bootstrap, client_id=configs.get("client.id", CLIENT_ID), security=security)


def open_client(bootstrap: str, config_path: str | None = None) -> Client:
    """Create a client; nothing is connected yet.

    config_path  the properties file of a `--command-config`
    raises       ClientError for an invalid address, file or property
    """
    return new_client(bootstrap, {} if config_path is None else read_client_config(config_path))
