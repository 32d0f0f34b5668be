"""What clients of others get from listeners of each kind: one table for two brokers.

`client_cells_3_9_2.json` has the outcome of each cell by library, recorded with Apache Kafka 3.9.2
by `python -m tests.security.client_cells`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.security.client_logins import (
    GIVE_UP_ONLY_IN_TIME,
    LIBRARIES,
    SERVED,
    Library,
    Login,
    Outcome,
)
from tests.security.secured import USERS, Secured, secured_apache
from tests.support.certificates import Authority, Certified
from tests.support.ports import free_port
from tests.support.wire import Wire

RECORDED: Final = Path(__file__).with_name("client_cells_3_9_2.json")
PROTOCOLS: Final[Mapping[str, str]] = {
    "PLAINTEXT": "PLAINTEXT",
    "ONE_WAY": "SSL",
    "MUTUAL": "SSL",
    "REVOKED": "SSL",
    "EXPIRED": "SSL",
    "FUTURE": "SSL",
    "ELSEWHERE": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "PLAIN_ONLY": "SASL_SSL",
    "SESSIONS": "SASL_SSL",
}
"""The protocol of each listener."""
SESSION_MS: Final = 3_000
"""Brokers refuse to authenticate a connection again within a second."""
TIMEOUT_MS: Final = 60_000
SILENCE_MS: Final = 5_000
"""How long a client waits where no error says why nothing comes."""


@dataclass(frozen=True)
class Cell:
    """A login at a listener, and whether it is served."""

    listener: str
    is_served: bool = True
    protocol: str = ""
    """That of the listener if empty."""
    mechanism: str = ""
    user: str = "bob"
    password: str = USERS["bob"]
    certificate: str = ""
    """The name of one of the client."""
    authority: str = "trusted"
    life_ms: int = 3_600_000
    """How long each token is valid."""
    stay_ms: int = 0
    """How long the client writes."""
    is_silent: bool = False
    """No error says why the client is not served."""


def refused(listener: str, **more: str | int | bool) -> Cell:
    """A cell that is not served."""
    return Cell(listener, is_served=False, **more)  # type: ignore[arg-type]


PASSWORDS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
CELLS: Final[Mapping[str, Cell]] = {
    "TLS one way": Cell("ONE_WAY"),
    "TLS mutual": Cell("MUTUAL", certificate="client"),
    **{mechanism: Cell("SASL_SSL", mechanism=mechanism) for mechanism in PASSWORDS},
    "OAUTHBEARER": Cell("SASL_SSL", mechanism="OAUTHBEARER"),
    **{
        f"{mechanism}, wrong password": refused("SASL_SSL", mechanism=mechanism, password="x")
        for mechanism in PASSWORDS
    },
    **{
        f"{mechanism}, unknown user": refused("SASL_SSL", mechanism=mechanism, user="mallory")
        for mechanism in PASSWORDS
    },
    "OAUTHBEARER, expired token": refused("SASL_SSL", mechanism="OAUTHBEARER", life_ms=-60_000),
    "mechanism that the listener lacks": refused("PLAIN_ONLY", mechanism="SCRAM-SHA-512"),
    "session that ends": Cell("SESSIONS", mechanism="SCRAM-SHA-512", stay_ms=3 * SESSION_MS),
    "token that expires": Cell("SASL_SSL", mechanism="OAUTHBEARER", life_ms=7_000, stay_ms=10_000),
    "expired certificate of the broker": refused("EXPIRED"),
    "not yet valid certificate of the broker": refused("FUTURE"),
    "certificate of another host": refused("ELSEWHERE"),
    "broker of an unknown authority": refused("ONE_WAY", authority="other"),
    "no certificate": refused("MUTUAL"),
    "expired certificate": refused("MUTUAL", certificate="expired"),
    "not yet valid certificate": refused("MUTUAL", certificate="future"),
    "certificate of an unknown authority": refused("MUTUAL", certificate="stranger"),
    "certificate of a revoked authority": refused("REVOKED", certificate="stranger"),
    "PLAINTEXT to SSL": refused("ONE_WAY", protocol="PLAINTEXT", is_silent=True),
    "PLAINTEXT to SASL_SSL": refused("SASL_SSL", protocol="PLAINTEXT", is_silent=True),
    "SASL_PLAINTEXT to SASL_SSL": refused(
        "SASL_SSL", protocol="SASL_PLAINTEXT", mechanism="PLAIN", is_silent=True
    ),
    "SSL to PLAINTEXT": refused("PLAINTEXT", protocol="SSL", is_silent=True),
    "SSL to SASL_SSL": refused("SASL_SSL", protocol="SSL", is_silent=True),
    "SASL_SSL to SASL_PLAINTEXT": refused(
        "SASL_PLAINTEXT", protocol="SASL_SSL", mechanism="PLAIN", is_silent=True
    ),
    "SASL_PLAINTEXT to PLAINTEXT": refused(
        "PLAINTEXT", protocol="SASL_PLAINTEXT", mechanism="PLAIN", is_silent=True
    ),
}


EXPIRED_TOKEN: Final = "OAUTHBEARER, expired token"
LACKING: Final[Mapping[str, tuple[str, ...]]] = {
    "kafka-go": tuple(name for name, cell in CELLS.items() if cell.mechanism == "OAUTHBEARER"),
    "kcat": (EXPIRED_TOKEN, *(name for name, cell in CELLS.items() if cell.stay_ms)),
}
"""Cells for which a library has no settings; kcat ends when its only broker closes a connection."""
DIFFERENCES: Final = {
    ("aiokafka", EXPIRED_TOKEN): "KafkaConnectionError",
    ("kafkajs", EXPIRED_TOKEN): "KafkaJSConnectionClosedError",
}
"""Outcomes that are others than with Apache Kafka: a client that sends a request before it has
acknowledged its refusal is closed, and gets no ILLEGAL_SASL_STATE."""


@dataclass
class CellBroker(Secured):
    """A running broker with the listeners of the cells."""

    def __post_init__(self) -> None:
        self.ports = {name: free_port() for name in PROTOCOLS}
        self.other = Authority(self.folder / "other", "other")
        self.both = self.folder / "both.pem"
        self.both.write_text(self.authority.trusted.read_text() + self.other.trusted.read_text())
        self.certificates: dict[str, Certified] = {
            "client": self.authority.client(),
            "expired": self.authority.expired("late"),
            "future": self.authority.not_yet_valid("early"),
            "stranger": self.other.client(),
        }
        for certified in self.certificates.values():
            assert certified.pem.exists()
            assert certified.certificate_file.exists()
            assert certified.key_file.exists()

    def settings(self) -> dict[str, str]:
        """Settings of the broker."""
        settings = super().settings()
        del settings["authorizer.class.name"]
        prefix = "listener.name."
        sasl = {
            name.removeprefix(f"{prefix}sasl_ssl"): text
            for name, text in settings.items()
            if name.startswith(f"{prefix}sasl_ssl")
        }
        servers = {
            "expired": self.authority.expired("server-late"),
            "future": self.authority.not_yet_valid("server-early"),
            "elsewhere": self.authority.wrong_host(),
        }
        trusted = {"mutual": self.authority.trusted, "revoked": self.both}
        return {
            **settings,
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in PROTOCOLS.items()
            ),
            **{f"{prefix}{name}.ssl.client.auth": "required" for name in trusted},
            **{
                f"{prefix}{name}.ssl.truststore.location": str(file)
                for name, file in trusted.items()
            },
            **{
                f"{prefix}{name}.ssl.keystore.location": str(certified.pkcs12())
                for name, certified in servers.items()
            },
            **{f"{prefix}sessions{name}": text for name, text in sasl.items()},
            **{f"{prefix}plain_only{name}": text for name, text in sasl.items()},
            f"{prefix}plain_only.sasl.enabled.mechanisms": "PLAIN",
            f"{prefix}sessions.scram-sha-512.connections.max.reauth.ms": str(SESSION_MS),
        }

    def login(self, library: str, cell: Cell) -> Login:
        """What a client is given."""
        protocol = cell.protocol or PROTOCOLS[cell.listener]
        has_tls = protocol.endswith("SSL")
        is_short = cell.is_silent or (not cell.is_served and library in GIVE_UP_ONLY_IN_TIME)
        authority = self.authority if cell.authority == "trusted" else self.other
        return Login(
            bootstrap=self.address(cell.listener),
            topic=f"cells-{library}",
            protocol=protocol,
            mechanism=cell.mechanism,
            user=cell.user,
            password=cell.password,
            authority=authority.trusted if has_tls else None,
            certified=self.certificates[cell.certificate] if cell.certificate else None,
            life_ms=cell.life_ms,
            stay_ms=cell.stay_ms,
            timeout_ms=SILENCE_MS if is_short else TIMEOUT_MS,
        )

    def add_topics(self) -> None:
        """A topic for each library."""
        admin = AdminClient({"bootstrap.servers": self.address("PLAINTEXT")})
        topics = [NewTopic(f"cells-{library}", 1, 1) for library in LIBRARIES]
        for future in admin.create_topics(topics).values():
            future.result(60)

    def revoke(self, library: Library) -> None:
        """Take the other authority out of a trust store that a client has used until now."""
        revoked = CELLS["certificate of a revoked authority"]
        assert library(self.login("confluent-kafka", revoked)).kind == SERVED
        name = "listener.name.revoked.ssl.truststore.location"
        change = AlterableConfig(name=name, config_operation=0, value=str(self.authority.trusted))
        resource = AlterConfigsResource(resource_type=4, resource_name="0", configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        with Wire(self.address("PLAINTEXT")) as wire:
            (response,) = wire.call(request, 1).responses
        assert response.error_code == 0, response


Start = Callable[..., AbstractContextManager[Secured]]


@contextmanager
def cell_broker(start: Start, folder: Path) -> Iterator[CellBroker]:
    """A broker on which each cell can be tried.

    start  `secured_apache` or `secured_odradek`
    """
    with start(folder, CellBroker) as broker:
        assert isinstance(broker, CellBroker)
        broker.add_scram_users()
        broker.add_topics()
        with LIBRARIES["confluent-kafka"](folder) as library:
            broker.revoke(library)
        yield broker


def outcomes(
    broker: CellBroker, cells: Sequence[str], libraries: Sequence[str]
) -> dict[str, dict[str, Outcome]]:
    """The outcome of each cell by library; each library goes through the cells on its own."""

    def of_library(name: str) -> dict[str, Outcome]:
        with LIBRARIES[name](broker.folder) as library:
            return {
                cell: library(broker.login(name, CELLS[cell]))
                for cell in cells
                if cell not in LACKING.get(name, ())
            }

    with ThreadPoolExecutor(len(libraries)) as threads:
        return dict(zip(libraries, threads.map(of_library, libraries), strict=True))


def main() -> None:
    """Record the outcomes with Apache's broker."""
    with tempfile.TemporaryDirectory() as name, cell_broker(secured_apache, Path(name)) as broker:
        recorded = {
            library: {cell: outcome.kind for cell, outcome in row.items()}
            for library, row in outcomes(broker, list(CELLS), list(LIBRARIES)).items()
        }
    RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
