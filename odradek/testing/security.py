"""Who may connect to a broker for tests: users that are made when it starts.

The broker has one listener, SASL_PLAINTEXT on 127.0.0.1.  A user `admin` with a random password
logs in with PLAIN: the handle is this user, and stores the credentials of SCRAM.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from odradek.tools.client import Client
    from odradek.tools.security.client_security import ClientSecurity

ADMIN: Final = "admin"
PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOL: Final = "SASL_PLAINTEXT"
_MODULES: Final = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Security:
    """Users of a broker, and the SASL mechanism by which their clients log in.

    users       name -> password, which may have any characters but line ends
    mechanism   PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
    authorizes  ACLs decide what a user may do; `admin` may do everything, the others nothing yet
    """

    users: Mapping[str, str] = field(repr=False)
    mechanism: str = "SCRAM-SHA-512"
    authorizes: bool = False

    def __post_init__(self) -> None:
        """raises  ValueError for another mechanism, and for a user `admin`"""
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"mechanism {self.mechanism}: expected {', '.join(MECHANISMS)}")
        if ADMIN in self.users:
            raise ValueError(f"users: {ADMIN} is made by the broker, with a password of its own")

    def client_properties(self, user: str) -> dict[str, str]:
        """Kafka's client properties, without addresses, for clients and tools of Java and ours."""
        return _client_properties(self.mechanism, user, self.users[user])

    def confluent_config(self, user: str) -> dict[str, str]:
        """Configs of librdkafka and confluent-kafka."""
        return {
            "security.protocol": PROTOCOL,
            "sasl.mechanism": self.mechanism,
            "sasl.username": user,
            "sasl.password": self.users[user],
        }

    def python_config(self, user: str) -> dict[str, str]:
        """Keyword arguments of clients of kafka-python and aiokafka."""
        return {
            "security_protocol": PROTOCOL,
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": self.users[user],
        }


class BrokerUsers:
    """The security of one broker, with the password of its admin."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._password = secrets.token_hex(16)

    def write_settings(self, path: str | os.PathLike[str], port: int) -> None:
        """Write the file of settings that the broker starts with, for its owner to read.

        raises  OSError
        """
        listener = f"{PROTOCOL}://127.0.0.1:{port}"
        mechanism = self._security.mechanism
        users = {f"user_{ADMIN}": self._password}
        if mechanism == PLAIN:
            users |= {f"user_{name}": text for name, text in self._security.users.items()}
        plain = login_module_text(PLAIN, username=ADMIN, password=self._password, **users)
        prefix = f"listener.name.{PROTOCOL.lower()}"
        settings = {
            "listeners": listener,
            "advertised.listeners": listener,
            "security.inter.broker.protocol": PROTOCOL,
            "sasl.mechanism.inter.broker.protocol": PLAIN,
            "sasl.enabled.mechanisms": ",".join(dict.fromkeys((PLAIN, mechanism))),
            f"{prefix}.plain.sasl.jaas.config": plain,
        }
        if mechanism != PLAIN:
            settings[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = login_module_text(
                mechanism
            )
        if self._security.authorizes:
            settings["authorizer.class.name"] = "kafka.security.authorizer.AclAuthorizer"
            settings["super.users"] = f"User:{ADMIN}"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            for name, text in settings.items():
                escaped = text.replace("\\", "\\\\")
                file.write(f"{name}={escaped}\n")

    def admin(self) -> ClientSecurity:
        """What the connections of the handle do."""
        from odradek.tools.security.client_security import ClientSecurity

        return ClientSecurity(_client_properties(PLAIN, ADMIN, self._password))

    def store(self, client: Client) -> None:
        """Store the credentials of SCRAM.

        raises  ToolError, ClientError
        """
        from odradek.tools.configs.scram_credentials import store_scram_credential

        if self._security.mechanism != PLAIN:
            for name, text in self._security.users.items():
                store_scram_credential(client, name, self._security.mechanism, text)


def _client_properties(mechanism: str, user: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": PROTOCOL,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": login_module_text(mechanism, username=user, password=password),
    }


def login_module_text(mechanism: str, **options: str) -> str:
    """The text of `sasl.jaas.config`."""
    name = "plain.PlainLoginModule" if mechanism == PLAIN else "scram.ScramLoginModule"
    escaped = {key: text.replace("\\", "\\\\").replace('"', '\\"') for key, text in options.items()}
    words = [f'{key}="{text}"' for key, text in escaped.items()]
    return " ".join((f"{_MODULES}.{name}", "required", *words)) + ";"
