"""A broker with a listener of each security protocol: the settings are ours and Apache Kafka's.

Users are `admin` (a super user), `alice` and `bob`; `USERS` has their passwords.  What is
connected to the PLAINTEXT listener is a super user, and so is a client certificate of `Authority`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.odradek.console_tools import our_tool_here
from tests.support.apache import apache_kafka
from tests.support.broker_process import PROGRAM, BrokerProcess
from tests.support.certificates import CLIENT_SUBJECT, PASSWORD, Authority
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess
from tests.support.zookeeper import zookeeper

USERS: Final = {"admin": "admin-secret", "alice": "alice-secret", "bob": 'b"o\\b-secret'}
TOKEN_KEY: Final = "secret-key-of-delegation-tokens"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
LISTENERS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MODULES: Final = "org.apache.kafka.common.security"
MODULES: Final = {
    "PLAIN": f"{_MODULES}.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM, f"{_MODULES}.scram.ScramLoginModule"),
    "OAUTHBEARER": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule",
}


def quoted(text: str) -> str:
    """A value in a JAAS configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def jaas(mechanism: str, **options: str) -> str:
    """The text of `sasl.jaas.config`."""
    words = " ".join(f"{name}={quoted(value)}" for name, value in options.items())
    return f"{MODULES[mechanism]} required {words};"


def in_file(text: str) -> str:
    """A value in a properties file."""
    return text.replace("\\", "\\\\")


@dataclass
class Secured:
    """A running broker: its listeners, and the authority that both sides trust."""

    folder: Path
    authority: Authority
    zookeeper: str = ""
    ports: Mapping[str, int] = field(
        default_factory=lambda: {name: free_port() for name in LISTENERS}
    )
    process: LoggedProcess | None = None
    """That of the broker while it runs, if it is ours."""
    _written: int = 0

    def address(self, listener: str) -> str:
        """host:port for clients."""
        return f"localhost:{self.ports[listener]}"

    def settings(self) -> dict[str, str]:
        """Settings of the broker."""
        listeners = ",".join(f"{name}://localhost:{port}" for name, port in self.ports.items())
        plain = {f"user_{user}": password for user, password in USERS.items()}
        chosen = {
            "PLAIN": jaas("PLAIN", **plain),
            **{mechanism: f"{MODULES[mechanism]} required;" for mechanism in SCRAM},
            "OAUTHBEARER": jaas("OAUTHBEARER", unsecuredLoginStringClaim_sub="broker"),
        }
        return {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "sasl.enabled.mechanisms": ",".join(MODULES),
            "ssl.keystore.location": str(self.authority.server().java_key_store()),
            "ssl.keystore.type": "JKS",
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.location": str(self.authority.trusted),
            "ssl.truststore.type": "PEM",
            "listener.name.ssl.ssl.client.auth": "required",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:admin;User:ANONYMOUS;User:{CLIENT_SUBJECT}",
            "delegation.token.secret.key": TOKEN_KEY,
            **{
                f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config": in_file(text)
                for listener in ("sasl_plaintext", "sasl_ssl")
                for mechanism, text in chosen.items()
            },
        }

    def client(
        self, listener: str, mechanism: str = "", user: str = "admin", **properties: str
    ) -> dict[str, str]:
        """Client properties of Kafka for a user, with the trust store in PEM."""
        configs = {"security.protocol": listener}
        if "SSL" in listener:
            configs |= {
                "ssl.truststore.location": str(self.authority.trusted),
                "ssl.truststore.type": "PEM",
            }
        if mechanism == "OAUTHBEARER":
            text = jaas(mechanism, unsecuredLoginStringClaim_sub=user)
        elif mechanism:
            text = jaas(mechanism, username=user, password=USERS[user])
        if mechanism:
            configs |= {"sasl.mechanism": mechanism, "sasl.jaas.config": text}
        return configs | {name.replace("_", "."): value for name, value in properties.items()}

    def file(self, configs: Mapping[str, str]) -> str:
        """The path of a properties file."""
        self._written += 1
        path = self.folder / f"client-{self._written}.properties"
        path.write_text("".join(f"{name}={in_file(text)}\n" for name, text in configs.items()))
        return str(path)

    def add_scram_users(self) -> None:
        """Store the SCRAM credentials of `USERS`, over the PLAINTEXT listener."""
        for user, password in USERS.items():
            added = ",".join(f"{mechanism}=[password={password}]" for mechanism in SCRAM)
            result = our_tool_here(
                "configs",
                [
                    *("--bootstrap-server", self.address("PLAINTEXT"), "--alter"),
                    *("--entity-type", "users", "--entity-name", user, "--add-config", added),
                ],
            )
            assert result.exit_code == 0, result


@contextmanager
def secured_apache(folder: Path, kind: type[Secured] = Secured) -> Iterator[Secured]:
    """Apache Kafka 3.9.2 with a ZooKeeper of its own."""
    with zookeeper(folder / "zookeeper") as coordinator:
        secured = kind(folder, Authority(folder / "certificates"), f"{coordinator}/kafka")
        with apache_kafka(
            folder, zookeeper_address=secured.zookeeper, overrides=secured.settings()
        ):
            yield secured


class ConfiguredProcess(BrokerProcess):
    """A broker whose settings are in its file, and not on its command line."""

    def command(self) -> list[str]:
        """The command line of the broker."""
        configuration = self.folder / "server.properties"
        lines = (f"{name}={text}\n" for name, text in self.settings().items())
        configuration.write_text("".join(lines))
        return [sys.executable, *PROGRAM, "start", str(configuration), "--log-level", "DEBUG"]


@contextmanager
def secured_odradek(folder: Path, kind: type[Secured] = Secured) -> Iterator[Secured]:
    """Our broker, on a coordination tree of its own."""
    secured = kind(folder, Authority(folder / "certificates"))
    broker = ConfiguredProcess(folder, overrides=secured.settings())
    try:
        secured.process = broker.start().process
        yield secured
    finally:
        broker.close()


BROKERS: Final = {"apache": secured_apache, "odradek": secured_odradek}
"""How a broker of each kind is started."""
