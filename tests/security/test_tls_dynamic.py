"""Stores of certificates among the settings that change: refused as by Apache Kafka 3.9.2."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.protocol.messages.incremental_alter_configs import AlterableConfig as IncrementalConfig
from odradek.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.security.quota_requests import until
from tests.support.apache import apache_node
from tests.support.broker_process import odradek_broker
from tests.support.certificates import PASSWORD, Authority
from tests.support.ports import free_port
from tests.support.wire import Wire

pytestmark = [pytest.mark.client, pytest.mark.judge]

BROKER = 4
STATIC = 4
PREFIX = "listener.name.ssl."
KEY_STORE = f"{PREFIX}ssl.keystore.location"
KEY_STORE_TYPE = f"{PREFIX}ssl.keystore.type"
KEY_STORE_PASSWORD = f"{PREFIX}ssl.keystore.password"


class Scene(NamedTuple):
    folder: Path
    authority: Authority
    plaintext: dict[str, str]
    """Addresses, by the kind of broker."""
    tls: dict[str, int]
    """Ports."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("stores")
    authority = Authority(folder)
    (folder / "bad.p12").write_bytes(b"not a store")
    (folder / "bad.pem").write_text("not PEM")
    plaintext = {kind: free_port() for kind in ("apache", "ours")}
    tls = {kind: free_port() for kind in ("apache", "ours")}

    def settings(kind: str) -> dict[str, str]:
        listeners = f"PLAINTEXT://127.0.0.1:{plaintext[kind]},SSL://127.0.0.1:{tls[kind]}"
        return {
            "listeners": listeners,
            "advertised.listeners": listeners,
            KEY_STORE: str(authority.server().pkcs12()),
            KEY_STORE_TYPE: "PKCS12",
            KEY_STORE_PASSWORD: PASSWORD,
            f"{PREFIX}ssl.truststore.location": str(authority.trusted),
            f"{PREFIX}ssl.truststore.type": "PEM",
            "password.encoder.secret": "secret of passwords",
        }

    with (
        apache_node(tmp_path_factory.mktemp("apache"), overrides=settings("apache")),
        odradek_broker(
            tmp_path_factory.mktemp("ours"), port=plaintext["ours"], overrides=settings("ours")
        ),
    ):
        addresses = {kind: f"127.0.0.1:{port}" for kind, port in plaintext.items()}
        yield Scene(folder, authority, addresses, tls)


def altered(address: str, values: dict[str, str | None]) -> tuple[int, str]:
    """Change settings of the broker; the error and its text."""
    configs = [
        IncrementalConfig(name=name, config_operation=1 if value is None else 0, value=value)
        for name, value in values.items()
    ]
    resource = IncrementalResource(resource_type=BROKER, resource_name="0", configs=configs)
    with Wire(address) as client:
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        result = client.call(request, 1).responses[0]
    return result.error_code, result.error_message or ""


def sources(address: str, names: list[str]) -> set[int]:
    """Where the values of settings come from."""
    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name="0", configuration_keys=names
    )
    with Wire(address) as client:
        result = client.call(DescribeConfigsRequest(resources=[resource]), 4).results[0]
    return {config.config_source for config in result.configs}


def shown_serial(scene: Scene, kind: str) -> int:
    """The serial number of the certificate that a client sees."""
    context = ssl.create_default_context(cafile=scene.authority.trusted)
    address = ("127.0.0.1", scene.tls[kind])
    with (
        socket.create_connection(address, 60) as connected,
        context.wrap_socket(connected, server_hostname="localhost") as secured,
    ):
        certificate = secured.getpeercert()
    assert certificate is not None
    return int(str(certificate["serialNumber"]), 16)


UNUSABLE: dict[str, Callable[[Scene], dict[str, str | None]]] = {
    "no file": lambda scene: {KEY_STORE: str(scene.folder / "none.p12")},
    "a folder": lambda scene: {KEY_STORE: str(scene.folder)},
    "no store": lambda scene: {KEY_STORE: str(scene.folder / "bad.p12")},
    "wrong password": lambda scene: {KEY_STORE_PASSWORD: "wrong"},
    "wrong password of the key": lambda scene: {f"{PREFIX}ssl.key.password": "wrong"},
    "PEM with a password": lambda scene: {KEY_STORE_TYPE: "PEM"},
    "unknown type": lambda scene: {KEY_STORE_TYPE: "x"},
    "no trust store": lambda scene: {f"{PREFIX}ssl.truststore.location": "/none.pem"},
    "no certificates": lambda scene: {
        f"{PREFIX}ssl.truststore.location": str(scene.folder / "bad.pem")
    },
    "trust store of another type": lambda scene: {f"{PREFIX}ssl.truststore.type": "PKCS12"},
    "a file and PEM": lambda scene: {
        f"{PREFIX}ssl.keystore.key": "x",
        f"{PREFIX}ssl.keystore.certificate.chain": "y",
        KEY_STORE_TYPE: "PEM",
    },
    "another name": lambda scene: {KEY_STORE: str(scene.authority.client().pkcs12())},
}


@pytest.mark.parametrize("kind", ["apache", "ours"])
@pytest.mark.parametrize("name", UNUSABLE)
def test_store_that_cannot_be_used_is_refused_and_not_stored(
    scene: Scene, kind: str, name: str
) -> None:
    address = scene.plaintext[kind]
    values = UNUSABLE[name](scene)
    code, text = altered(address, values)
    assert code == ErrorCode.INVALID_REQUEST
    assert "Validation of dynamic config update of SSLFactory failed: " in text
    assert "wrong" not in text.split("failed: ")[1].replace("password is wrong", "")
    assert not sources(address, [KEY_STORE, KEY_STORE_TYPE, KEY_STORE_PASSWORD]) - {STATIC}


@pytest.mark.parametrize("kind", ["apache", "ours"])
def test_alter_configs_refuses_it_as_well(scene: Scene, kind: str) -> None:
    configs = [AlterableConfig(name=KEY_STORE, value="/none.p12")]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="0", configs=configs)
    request = AlterConfigsRequest(resources=[resource], validate_only=False)
    with Wire(scene.plaintext[kind]) as client:
        result = client.call(request, 2).responses[0]
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert sources(scene.plaintext[kind], [KEY_STORE]) == {STATIC}


@pytest.mark.parametrize("kind", ["apache", "ours"])
def test_store_of_a_listener_without_tls_is_not_looked_at(scene: Scene, kind: str) -> None:
    name = "listener.name.plaintext.ssl.keystore.location"
    assert altered(scene.plaintext[kind], {name: "/none.p12"}) == (ErrorCode.NONE, "")
    assert altered(scene.plaintext[kind], {name: None}) == (ErrorCode.NONE, "")


def test_store_that_can_be_used_is_in_force(scene: Scene) -> None:
    """Apache Kafka 3.9.2 takes the new one, too; it has not always gone back to the first."""
    kind = "ours"
    address = scene.plaintext[kind]
    first = shown_serial(scene, kind)
    renewed = scene.authority.issue(f"renewed-{kind}", subject="CN=server").pkcs12()
    assert altered(address, {KEY_STORE: str(renewed)}) == (ErrorCode.NONE, "")
    until(lambda: shown_serial(scene, kind), lambda serial: serial != first, "the old one stays")
    assert altered(address, {KEY_STORE: None}) == (ErrorCode.NONE, "")
    until(lambda: shown_serial(scene, kind), lambda serial: serial == first, "the new one stays")
