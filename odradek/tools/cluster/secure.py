"""`make secure`: three brokers with TLS, SASL and ACLs on this machine, from the files of a folder.

    python -m odradek.tools.cluster.secure FOLDER [write|store]

write  only write files; the brokers are started elsewhere, such as in containers
store  only store users, ACLs and the topic, once all brokers serve

The folder has server-N.properties for each broker; the first one serves the coordination.  Beside
`ssl.truststore.location` this writes, for its owner to read, and keeps what exists:

    ca.pem, ca.key    the authority, which clients trust
    server-N.pem      the key and the certificate of a broker
    USER.properties   how a user logs in, for Kafka's tools and ours; USER.conf for librdkafka
    jaas.conf         the users of the listener between brokers

A user's password is random, and that of USER.properties from then on.  Users, ACLs and the topic
`orders` are stored at each start.
Exit codes: 0 after SIGTERM or SIGINT; 1 when a file or a process stops the start.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Final, NamedTuple

from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.runtime.jaas import LoginModule
from odradek.runtime.java_properties import parse_properties
from odradek.tools.acls.bindings import ALL_HOSTS, LITERAL, AclPattern, AclRule
from odradek.tools.acls.queries import create_acls
from odradek.tools.client import ClientError
from odradek.tools.client_config import new_client
from odradek.tools.cluster.certificates import CertificateAuthority
from odradek.tools.cluster.command import broker_process
from odradek.tools.cluster.supervised import (
    SupervisionError,
    brokers_know_each_other,
    report,
    supervise,
)
from odradek.tools.configs.scram_credentials import store_scram_credential
from odradek.tools.errors import ToolError
from odradek.tools.private_files import write_private
from odradek.tools.security.client_security import ClientSecurity
from odradek.tools.security.errors import SecurityError
from odradek.tools.security.sasl_client import KEY as JAAS
from odradek.tools.topics.command import main as topics

PLAIN: Final = "PLAIN"
SCRAM: Final = "SCRAM-SHA-512"
_PACKAGE: Final = "org.apache.kafka.common.security"
MODULES: Final = {
    PLAIN: f"{_PACKAGE}.plain.PlainLoginModule",
    SCRAM: f"{_PACKAGE}.scram.ScramLoginModule",
}
BROKER: Final = "broker"
ADMIN: Final = "admin"
OPERATIONS: Final = {"alice": ("WRITE", "READ"), "bob": ("READ",)}
"""What the users may do with the topic; the group of each has an `s` more than its name."""
TOPIC: Final = "orders"
PARTITIONS: Final = 3
STORE_TIMEOUT_S: Final = 300.0
STORE_PAUSE_S: Final = 0.5


class SecureFiles(NamedTuple):
    """The settings of the brokers, and what their clients need."""

    brokers: Mapping[Path, Mapping[str, str]]
    jaas: Path
    users: Mapping[str, Mapping[str, str]]
    """Name -> client properties."""

    @property
    def folder(self) -> Path:
        """The folder of what was written."""
        return self.jaas.parent

    def addresses(self, number: int) -> list[str]:
        """One of each broker: that of its listener with this index."""
        return [_addresses(settings)[number] for settings in self.brokers.values()]


def _addresses(settings: Mapping[str, str]) -> list[str]:
    """Where clients find the listeners of a broker."""
    listeners = settings.get("advertised.listeners") or settings["listeners"]
    return [name.rpartition("//")[2] for name in listeners.split(",")]


def write_files(folder: Path) -> SecureFiles:
    """Write certificates and users for the brokers of a folder.

    raises  OSError; KeyError, ValueError for a file that is not as this module writes it
    """
    brokers = {
        file: parse_properties(file.read_bytes())
        for file in sorted(folder.glob("server-*.properties"))
    }
    if not brokers:
        raise ValueError(f"{folder}/server-1.properties is missing")
    trusted = Path(next(iter(brokers.values()))["ssl.truststore.location"])
    trusted.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    stores = {
        Path(settings["ssl.keystore.location"]): sorted(
            {address.rpartition(":")[0] for address in _addresses(settings)} - {"localhost"}
        )
        for settings in brokers.values()
    }
    write_certificates(trusted, stores)
    files = SecureFiles(
        brokers,
        trusted.with_name("jaas.conf"),
        {
            user: _user(user, trusted, PLAIN if user == BROKER else SCRAM)
            for user in (BROKER, ADMIN, *OPERATIONS)
        },
    )
    for user in (ADMIN, *OPERATIONS):
        text = _library_text(files.users[user], trusted, ",".join(files.addresses(0)))
        write_private(trusted.with_name(f"{user}.conf"), text)
    write_private(files.jaas, _jaas_text(password_of(files.users[BROKER])))
    return files


def write_certificates(trusted: Path, stores: Mapping[Path, Sequence[str]]) -> None:
    """Write what is missing: the authority, and key stores with certificates that it has signed.

    stores  with the further names of their hosts
    raises  OSError, ValueError
    """
    is_new = not (trusted.exists() and trusted.with_suffix(".key").exists())
    if is_new:
        authority = CertificateAuthority.create()
        authority.write(trusted)
    else:
        authority = CertificateAuthority.read(trusted)
    for store, hosts in stores.items():
        if is_new or not store.exists():
            write_private(store, "".join(authority.issue(store.stem, hosts)))


def _user(user: str, trusted: Path, mechanism: str) -> dict[str, str]:
    file = trusted.with_name(f"{user}.properties")
    if not file.exists():
        options = {"username": user, "password": secrets.token_urlsafe(24)}
        lines = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            JAAS: LoginModule(MODULES[mechanism], options).text,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trusted),
        }
        write_private(file, "".join(f"{key}={value}\n" for key, value in lines.items()))
    return parse_properties(file.read_bytes())


def password_of(properties: Mapping[str, str]) -> str:
    """raises  SecurityError"""
    login = ClientSecurity(properties).login
    if login is None:
        raise SecurityError(f"{JAAS} is missing")
    return login.password


def _library_text(properties: Mapping[str, str], trusted: Path, bootstrap: str) -> str:
    login = ClientSecurity(properties).login
    assert login is not None, "password_of has checked it"
    configs = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(trusted),
        "sasl.mechanism": SCRAM,
        "sasl.username": login.username,
        "sasl.password": login.password,
    }
    return "".join(f"{key}={value}\n" for key, value in configs.items())


def _jaas_text(password: str) -> str:
    options = {"username": BROKER, "password": password, f"user_{BROKER}": password}
    return (
        f"internal.KafkaServer {{\n    {LoginModule(MODULES[PLAIN], options).text}\n}};\n"
        f"KafkaServer {{\n    {LoginModule(MODULES[SCRAM], {}).text}\n}};\n"
    )


class SecureCluster:
    """Stores users and ACLs once the brokers are there, as the user of the brokers."""

    def __init__(self, files: SecureFiles) -> None:
        self._files = files
        self._is_stored = False

    def is_ready(self) -> bool:
        """Whether each user sees the topic on each broker.

        raises  SupervisionError when something cannot be stored
        """
        return self.store() and all(
            _sees_topic(address, self._files.users[user])
            for address in self._files.addresses(0)
            for user in (ADMIN, *OPERATIONS)
        )

    def store(self) -> bool:
        """Store what is not stored, if all brokers serve; whether it is stored.

        raises  SupervisionError when something cannot be stored
        """
        if not self._is_stored:
            security = ClientSecurity(self._files.users[BROKER])
            if not brokers_know_each_other(self._files.addresses(1), security):
                return False
            try:
                self._store()
            except ToolError as error:
                raise SupervisionError(f"users and ACLs cannot be stored: {error}") from error
            self._is_stored = True
        return True

    def _store(self) -> None:
        bootstrap = ",".join(self._files.addresses(1))
        words = ["--bootstrap-server", bootstrap, "--create", "--if-not-exists", "--topic", TOPIC]
        words += ["--command-config", str(self._files.folder / f"{BROKER}.properties")]
        if topics([*words, "--partitions", str(PARTITIONS)]) != 0:
            raise SupervisionError(f"the topic {TOPIC} cannot be created")
        with new_client(bootstrap, self._files.users[BROKER]) as client:
            for user, operations in OPERATIONS.items():
                create_acls(client, AclPattern("TOPIC", TOPIC, LITERAL), _rules(user, operations))
                create_acls(
                    client, AclPattern("GROUP", f"{user}s", LITERAL), _rules(user, ["READ"])
                )
            for user in (ADMIN, *OPERATIONS):
                password = password_of(self._files.users[user])
                store_scram_credential(client, user, SCRAM, password)


def _rules(user: str, operations: Sequence[str]) -> list[AclRule]:
    return [AclRule(f"User:{user}", ALL_HOSTS, operation, "ALLOW") for operation in operations]


def _sees_topic(address: str, properties: Mapping[str, str]) -> bool:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    try:
        with new_client(address, properties) as client:
            response = client.any_broker(request, MetadataResponse)
    except ClientError:
        return False
    return not any(topic.error_code for topic in response.topics)


def _store(files: SecureFiles) -> int:
    """Wait for the brokers and store what they need; returns the exit code."""
    cluster = SecureCluster(files)
    deadline_s = monotonic() + STORE_TIMEOUT_S
    try:
        while not cluster.store():
            if monotonic() >= deadline_s:
                raise SupervisionError(f"not every broker serves after {STORE_TIMEOUT_S:.0f} s")
            sleep(STORE_PAUSE_S)
    except SupervisionError as error:
        report(str(error))
        return 1
    return 0


def main(arguments: Sequence[str]) -> int:
    folder, *action = Path(arguments[0]), *arguments[1:]
    try:
        files = write_files(folder)
    except (OSError, KeyError, ValueError, SecurityError) as error:
        report(f"the files of {folder} cannot be used: {error}")
        return 1
    if action:
        return 0 if action == ["write"] else _store(files)
    first, *others = files.brokers
    environment = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={files.jaas}"}
    bootstrap = ",".join(files.addresses(0))
    cluster = SecureCluster(files)
    return supervise(
        lambda: (
            [broker_process(first, environment)],
            [broker_process(other, environment) for other in others],
        ),
        is_ready=cluster.is_ready,
        ready_line=f"odradek cluster is ready on {bootstrap}; authority, users and passwords in "
        f"{files.folder}; settings in {folder} -- try: "
        f"echo hello | odradek console-producer --bootstrap-server {bootstrap} --topic {TOPIC} "
        f"--producer.config {files.folder}/alice.properties",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
