"""Who may connect to a broker for tests: users and certificates that are made when it starts.

The broker has one listener, on 127.0.0.1.  With SASL a user `admin` with a random password logs in
with PLAIN: the handle is this user, and stores the credentials of SCRAM.
"""

from __future__ import annotations

import re
import secrets
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from odradek.tools.client import Client
    from odradek.tools.cluster.certificates import CertificateAuthority
    from odradek.tools.security.client_security import ClientSecurity

ADMIN: Final = "admin"
PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512")
PLAINTEXT: Final = "PLAINTEXT"
PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MODULES: Final = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Security:
    """The security protocol of a broker or cluster, and its users.

    users       name -> password, with SASL only; no line ends in either, and with SCRAM no name
                beyond ASCII, which Apache Kafka refuses at each login
    mechanism   of SASL, by which clients log in: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
    authorizes  ACLs decide what a user may do; `admin` may do everything, the others nothing yet
    protocol    PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL

    With TLS the certificate is for localhost and 127.0.0.1; its authority is made at the first use
    and valid for a year.
    """

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    mechanism: str = "SCRAM-SHA-512"
    authorizes: bool = False
    protocol: str = "SASL_PLAINTEXT"

    def __post_init__(self) -> None:
        """raises  ValueError for what a broker cannot be started with"""
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"mechanism {self.mechanism}: expected {', '.join(MECHANISMS)}")
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol {self.protocol}: expected {', '.join(PROTOCOLS)}")
        if ADMIN in self.users:
            raise ValueError(f"users: {ADMIN} is made by the broker, with a password of its own")
        for name, password in self.users.items():
            if re.search(r"[\r\n]", name + password):
                raise ValueError("users: a name or a password has a line end")
            if self.mechanism != PLAIN and not name.isascii():
                raise ValueError(f"users: {name} is beyond ASCII, which {self.mechanism} excludes")
            if self.mechanism != PLAIN and name in (".", ".."):
                raise ValueError(f"users: {self.mechanism} has no user '{name}'")
        if self.has_sasl and not self.users:
            raise ValueError(f"users: {self.protocol} needs some")
        if not self.has_sasl and (self.users or self.authorizes):
            raise ValueError(f"users: {self.protocol} has none, and no ACLs; SASL_SSL has both")

    @property
    def has_sasl(self) -> bool:
        """Whether clients log in."""
        return self.protocol.startswith("SASL_")

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    @cached_property
    def certificate_authority(self) -> CertificateAuthority:
        """The authority of the brokers' certificates, with its key."""
        from odradek.tools.cluster.certificates import CertificateAuthority

        return CertificateAuthority.create()

    @cached_property
    def admin_password(self) -> str:
        """The password of `admin`."""
        return secrets.token_hex(16)

    @property
    def ca_pem(self) -> str:
        """The certificate that clients trust, as PEM."""
        return self.certificate_authority.text

    def client_properties(self, user: str | None = None) -> dict[str, str]:
        """Kafka's client properties, without addresses, for clients and tools of Java and ours.

        user  None: the first one
        """
        return self._client_properties(self.mechanism, *self._user(user))

    def admin_properties(self) -> dict[str, str]:
        """Client properties of `admin`, where there is SASL."""
        return self._client_properties(PLAIN, ADMIN, self.admin_password)

    def _client_properties(self, mechanism: str, user: str, password: str) -> dict[str, str]:
        properties = {"security.protocol": self.protocol}
        if self.has_tls:
            properties["ssl.truststore.type"] = "PEM"
            properties["ssl.truststore.certificates"] = self.ca_pem
        if self.has_sasl:
            properties["sasl.mechanism"] = mechanism
            login = login_module_text(mechanism, username=user, password=password)
            properties["sasl.jaas.config"] = login
        return properties

    def confluent_config(self, user: str | None = None) -> dict[str, str]:
        """Configs of librdkafka and confluent-kafka.

        user  None: the first one
        """
        configs = {"security.protocol": self.protocol}
        if self.has_tls:
            configs["ssl.ca.pem"] = self.ca_pem
        if self.has_sasl:
            configs["sasl.mechanism"] = self.mechanism
            configs["sasl.username"], configs["sasl.password"] = self._user(user)
        return configs

    def python_config(self, user: str | None = None) -> dict[str, Any]:
        """Keyword arguments of clients of kafka-python and aiokafka.

        user  None: the first one
        """
        configs: dict[str, Any] = {"security_protocol": self.protocol}
        if self.has_tls:
            configs["ssl_context"] = ssl.create_default_context(cadata=self.ca_pem)
        if self.has_sasl:
            name, password = self._user(user)
            configs["sasl_mechanism"] = self.mechanism
            configs["sasl_plain_username"], configs["sasl_plain_password"] = name, password
        return configs

    def _user(self, name: str | None) -> tuple[str, str]:
        if not self.has_sasl:
            return "", ""
        if name is None:
            name = next(iter(self.users))
        return name, self.users[name]

    def broker_settings(self, port: int, mechanisms: Sequence[str] = ()) -> dict[str, str]:
        """Settings of a broker on a port of 127.0.0.1.

        mechanisms  that are served besides `mechanism`
        """
        listener = f"{self.protocol}://127.0.0.1:{port}"
        settings = {
            "listeners": listener,
            "advertised.listeners": listener,
            "security.inter.broker.protocol": self.protocol,
        }
        if self.has_tls:
            key, chain = self.certificate_authority.issue("odradek")
            settings["ssl.keystore.type"] = settings["ssl.truststore.type"] = "PEM"
            settings["ssl.keystore.key"] = key
            settings["ssl.keystore.certificate.chain"] = chain
            settings["ssl.truststore.certificates"] = self.ca_pem
        if self.has_sasl:
            settings |= self._sasl_settings((PLAIN, self.mechanism, *mechanisms))
        if self.authorizes:
            settings["authorizer.class.name"] = "kafka.security.authorizer.AclAuthorizer"
            settings["super.users"] = f"User:{ADMIN}"
        return settings

    def _sasl_settings(self, mechanisms: Sequence[str]) -> dict[str, str]:
        users = {f"user_{ADMIN}": self.admin_password}
        if PLAIN in mechanisms[1:]:
            users |= {f"user_{name}": text for name, text in self.users.items()}
        options = {"username": ADMIN, "password": self.admin_password, **users}
        prefix = f"listener.name.{self.protocol.lower()}"
        return {
            "sasl.mechanism.inter.broker.protocol": PLAIN,
            "sasl.enabled.mechanisms": ",".join(dict.fromkeys(mechanisms)),
            **{
                f"{prefix}.{mechanism.lower()}.sasl.jaas.config": login_module_text(
                    mechanism, **(options if mechanism == PLAIN else {})
                )
                for mechanism in mechanisms
            },
        }

    def connection(self) -> ClientSecurity | None:
        """What the connections of the handle do."""
        if self.protocol == PLAINTEXT:
            return None
        from odradek.tools.security.client_security import ClientSecurity

        return ClientSecurity(self.admin_properties())

    def store_users(self, client: Client) -> None:
        """Store the credentials of SCRAM.

        raises  ToolError
        """
        from odradek.tools.configs.scram_credentials import store_scram_credential

        if self.has_sasl and self.mechanism != PLAIN:
            for name, text in self.users.items():
                store_scram_credential(client, name, self.mechanism, text)


def login_module_text(mechanism: str, **options: str) -> str:
    """The text of `sasl.jaas.config`."""
    name = "plain.PlainLoginModule" if mechanism == PLAIN else "scram.ScramLoginModule"
    escaped = {key: text.replace("\\", "\\\\").replace('"', '\\"') for key, text in options.items()}
    words = [f'{_option_name(key)}="{text}"' for key, text in escaped.items()]
    return " ".join((f"{_MODULES}.{name}", "required", *words)) + ";"


def _option_name(name: str) -> str:
    """A name as JAAS takes it: that of a user may have any characters."""
    if re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
