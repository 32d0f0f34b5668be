"""Properties files for the connection of a tool to the brokers."""

from __future__ import annotations

from typing import Final

from odradek.bounded_files import read_file
from odradek.tools.client import CLIENT_ID, Client, ClientError

FILE_BYTES_MAX: Final = 4 << 20
SECURITY_PROTOCOL: Final = "security.protocol"


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
    """The properties of a `--command-config`, of which the tools use `client.id` only.

    raises  ClientError for a file that cannot be read, and for a security protocol other than
            PLAINTEXT, which a tool must not replace by an unencrypted connection
    """
    try:
        configs = read_properties(path)
    except (OSError, InvalidPropertiesError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ClientError(f"{path} cannot be read: {reason}") from error
    security = configs.get(SECURITY_PROTOCOL, "PLAINTEXT").strip()
    if security != "PLAINTEXT":
        raise ClientError(f"{path}: {SECURITY_PROTOCOL}={security} is not supported by this tool")
    return configs


def open_client(bootstrap: str, config_path: str | None = None) -> Client:
    """Create a client; nothing is connected yet.

    config_path  the properties file of a `--command-config`
    raises       ClientError for an invalid address or file
    """
    configs = {} if config_path is None else read_client_config(config_path)
    return Client(bootstrap, client_id=configs.get("client.id", CLIENT_ID))
