"""`odradek start --ephemeral --sasl MECHANISM --tls`: users and certificates made at the start.

What clients need is in a folder that is removed with the data, for its owner to read:

    ca.pem            the authority that clients trust, with --tls
    USER.properties   how a user connects, for Kafka's tools and ours
    USER.conf         how the user connects, for librdkafka: `kcat -F`

With --tls alone no user exists, and the name of the last two is `client`.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from odradek.runtime.java_properties import properties_text
from odradek.testing.security import PLAIN, Security
from odradek.tools.private_files import write_private

if TYPE_CHECKING:
    from odradek.tools.initial_scram_users import ScramUser

DEFAULT_USER: Final = "alice"
WITHOUT_USERS: Final = "client"
SUFFIX: Final = "-clients"
"""What follows the name of the folder of the data."""


class EphemeralSecurity:
    """The users and certificates of one ephemeral broker."""

    def __init__(self, mechanisms: Sequence[str], users: Sequence[str], *, has_tls: bool) -> None:
        """
        mechanisms  of SASL; none: clients do not log in
        users       NAME:PASSWORD, or NAME for a random password; none: `DEFAULT_USER`
        raises      ValueError
        """
        self._mechanisms = mechanisms
        protocol = "SSL"
        passwords: dict[str, str] = {}
        if mechanisms:
            protocol = "SASL_SSL" if has_tls else "SASL_PLAINTEXT"
            for text in users or [DEFAULT_USER]:
                name, _, password = text.partition(":")
                if not name or "/" in name or "\0" in name:
                    raise ValueError("users: the name of one is empty, or that of no file")
                passwords[name] = password or secrets.token_urlsafe(16)
        first, *others = mechanisms or [PLAIN]
        self._security = Security(passwords, mechanism=first, protocol=protocol)
        for mechanism in others:
            Security(passwords, mechanism=mechanism, protocol=protocol)  # checks its name
        self._folder = ""

    @property
    def folder(self) -> str:
        """The files for clients; empty before `prepare`."""
        return self._folder

    def settings(self, port: int) -> list[str]:
        """The settings of the broker, as `key=value`."""
        settings = self._security.broker_settings(port, self._mechanisms)
        return [f"{name}={text}" for name, text in settings.items()]

    def prepare(self, data: str) -> None:
        """Store the users of SCRAM, and make the folder of files for clients.

        data    the log directory, which is empty where a mechanism is SCRAM
        raises  OSError, ToolError
        """
        self._folder = data + SUFFIX
        os.mkdir(self._folder, 0o700)
        if self._security.has_tls:
            write_private(f"{self._folder}/ca.pem", self._security.ca_pem)
        users = [*self._scram_users()]
        if users:
            from odradek.tools.initial_scram_users import store_initial_users

            store_initial_users(data, users)

    def _scram_users(self) -> Sequence[ScramUser]:
        mechanisms = [mechanism for mechanism in self._mechanisms if mechanism != PLAIN]
        if not mechanisms:
            return ()
        # Imported only here: it loads parts of the broker.
        from odradek.tools.initial_scram_users import scram_user

        passwords = self._security.users.items()
        return [
            scram_user(name, mechanism, password)
            for mechanism in mechanisms
            for name, password in passwords
        ]

    def write_client_files(self, address: str) -> str:
        """Write the files of each user for a broker at an address; returns how to try it.

        raises  OSError
        """
        names = list(self._security.users) or [WITHOUT_USERS]
        for name in names:
            user = name if self._security.has_sasl else None
            properties = self._security.client_properties(user)
            library = self._security.confluent_config(user)
            if self._security.has_tls:
                del properties["ssl.truststore.certificates"], library["ssl.ca.pem"]
                properties["ssl.truststore.location"] = f"{self._folder}/ca.pem"
                library["ssl.ca.location"] = f"{self._folder}/ca.pem"
            properties["bootstrap.servers"] = library["bootstrap.servers"] = address
            write_private(f"{self._folder}/{name}.properties", properties_text(properties))
            text = "".join(f"{key}={value}\n" for key, value in library.items())
            write_private(f"{self._folder}/{name}.conf", text)
        file = f"{self._folder}/{names[0]}.conf"
        return (
            f"settings of clients in {self._folder} -- try: echo hello | kcat -F {file} -P -t "
            f"greetings && kcat -F {file} -C -t greetings -e"
        )

    def remove(self) -> None:
        """Remove the files for clients."""
        if self._folder:
            from shutil import rmtree

            with suppress(OSError):
                rmtree(self._folder)
