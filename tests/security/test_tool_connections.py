"""The tools connect by Kafka's client properties: with TLS, and with each mechanism of SASL."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.tools.security.client_security import ClientSecurity
from odradek.tools.security.errors import SecurityError
from tests.odradek.console_tools import our_tool, our_tool_here
from tests.security.secured import BROKERS, MODULES, Secured, jaas
from tests.support.apache import ToolResult
from tests.support.broker_process import odradek_broker
from tests.support.certificates import PASSWORD, Authority

CHOSEN = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
pytestmark = [pytest.mark.timeout(600), pytest.mark.judge]


@pytest.fixture(scope="module", params=BROKERS)
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    """A broker with users."""
    with BROKERS[request.param](tmp_path_factory.mktemp("secured")) as broker:
        broker.add_scram_users()
        yield broker


@pytest.mark.parametrize("mechanism", MODULES)
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_small_client_logs_in(secured: Secured, listener: str, mechanism: str) -> None:
    config = secured.file(secured.client(listener, mechanism))
    result = our_tool_here(
        "cluster-tool",
        ["cluster-id", "--bootstrap-server", secured.address(listener), "--config", config],
    )
    assert result.exit_code == 0, result
    assert result.output.startswith("Cluster ID: ")


@pytest.mark.parametrize("mechanism", MODULES)
def test_console_tools_log_in(secured: Secured, mechanism: str) -> None:
    config = secured.file(secured.client("SASL_SSL", mechanism))
    topic = f"console-{mechanism}"
    at = ["--bootstrap-server", secured.address("SASL_SSL"), "--topic", topic]
    sent = our_tool("console-producer", [*at, "--producer.config", config], "first\nsecond\n")
    assert sent.exit_code == 0, sent
    words = ["--consumer.config", config, "--from-beginning", "--max-messages", "2"]
    read = our_tool("console-consumer", [*at, *words, "--timeout-ms", "60000"])
    assert read.output == "first\nsecond\n", read


def stores(secured: Secured) -> dict[str, dict[str, str]]:
    """Client properties for mutual TLS, by the kind of the stores."""
    client = secured.authority.client()
    bare = {"security.protocol": "SSL"}
    return {
        "PEM": bare
        | {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(secured.authority.trusted),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(client.pem),
        },
        "encrypted PEM": bare
        | {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(secured.authority.trusted),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(client.encrypted_pem()),
            "ssl.key.password": PASSWORD,
        },
        "inline PEM": bare
        | {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": secured.authority.trusted.read_text().replace("\n", " "),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": client.key_text().replace("\n", " "),
            "ssl.keystore.certificate.chain": client.chain_text().replace("\n", " "),
        },
        "PKCS12": bare
        | {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(secured.authority.trusted_pkcs12()),
            "ssl.truststore.password": PASSWORD,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(client.pkcs12()),
            "ssl.keystore.password": PASSWORD,
        },
    }


def java_stores(secured: Secured) -> dict[str, str]:
    """Client properties for mutual TLS with stores in Java's own format."""
    return {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(secured.authority.trusted_java_key_store()),
        "ssl.keystore.type": "JKS",
        "ssl.keystore.location": str(secured.authority.client().java_key_store()),
        "ssl.keystore.password": PASSWORD,
    }


@pytest.mark.parametrize("kind", ["PEM", "encrypted PEM", "inline PEM", "PKCS12", "JKS"])
def test_store_of_every_kind_is_read(secured: Secured, kind: str) -> None:
    config = secured.file(java_stores(secured) if kind == "JKS" else stores(secured)[kind])
    at = ["--bootstrap-server", secured.address("SSL")]
    topic = kind.replace(" ", "-")
    made = our_tool_here("topics", [*at, "--command-config", config, "--create", "--topic", topic])
    assert made.output == f"Created topic {topic}.\n", made
    words = [*at, "--topic", topic, "--producer.config", config]
    sent = our_tool("console-producer", words, "record\n")
    assert (sent.exit_code, sent.errors) == (0, ""), sent
    words = [*at, "--topic-partitions", f"{topic}:0", "--command-config", config]
    assert our_tool_here("get-offsets", words).output == f"{topic}:0:1\n"


def test_chosen_cipher_suite_is_negotiated(secured: Secured) -> None:
    suites = {"ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA, " + CHOSEN}
    security = ClientSecurity(stores(secured)["PEM"] | suites)
    address = ("127.0.0.1", secured.ports["SSL"])
    with (
        socket.create_connection(address) as connected,
        security.wrap(connected, "localhost") as secure,
    ):
        assert isinstance(secure, ssl.SSLSocket)
        cipher, version, _ = secure.cipher() or ("", "", 0)
    assert (cipher, version) == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2")
    at = ["--bootstrap-server", secured.address("SSL"), "--topic", "chosen-suite"]
    config = secured.file(stores(secured)["PEM"] | {"ssl.cipher.suites": CHOSEN})
    sent = our_tool("console-producer", [*at, "--producer.config", config], "record\n")
    assert (sent.exit_code, sent.errors) == (0, ""), sent


@pytest.mark.parametrize(
    ("suites", "versions", "problem"),
    [
        ("TLS_UNKNOWN", "TLSv1.2", "TLS_UNKNOWN is not a cipher suite"),
        ("TLS_AES_128_GCM_SHA256", "TLSv1.2", "no suite is one of TLSv1.2"),
        ("TLS_AES_128_GCM_SHA256", "TLSv1.3", "TLS 1.3 would have TLS_AES_256_GCM_SHA384, TLS_CH"),
    ],
)
def test_cipher_suite_that_cannot_be_used_is_refused(
    secured: Secured, suites: str, versions: str, problem: str
) -> None:
    chosen = {"ssl.cipher.suites": suites, "ssl.enabled.protocols": versions}
    with pytest.raises(SecurityError, match=f"ssl.cipher.suites: {problem}"):
        ClientSecurity(stores(secured)["PEM"] | chosen)


@pytest.mark.parametrize(
    ("mechanism", "user"),
    [("PLAIN", "alice"), ("SCRAM-SHA-256", "alice"), ("SCRAM-SHA-512", "stranger")],
)
def test_wrong_password_is_one_line_without_it(secured: Secured, mechanism: str, user: str) -> None:
    wrong = "a-wrong-secret"
    config = secured.file(
        secured.client("SASL_SSL", mechanism)
        | {"sasl.jaas.config": jaas(mechanism, username=user, password=wrong)}
    )
    reason = "Authentication failed during authentication due to invalid credentials"
    if mechanism == "PLAIN":
        reason = "Authentication failed: Invalid username or password"
    for result in all_refused(secured, "SASL_SSL", config):
        assert reason in result.output + result.errors
        assert wrong not in result.output + result.errors


def all_refused(secured: Secured, listener: str, config: str) -> list[ToolResult]:
    """What the tools print, each of which fails."""
    at = ["--bootstrap-server", secured.address(listener)]
    small = our_tool_here("topics", [*at, "--command-config", config, "--list"])
    sent = our_tool("console-producer", [*at, "--topic", "t", "--producer.config", config], "x\n")
    read = our_tool("console-consumer", [*at, "--topic", "t", "--consumer.config", config])
    for result in (small, sent, read):
        assert result.exit_code == 1, result
        assert "Traceback" not in result.errors, result
    return [small, sent, read]


def test_untrusted_broker_is_one_line(secured: Secured) -> None:
    other = Authority(secured.folder / "other", "other")
    config = secured.file(
        secured.client("SASL_SSL", "PLAIN") | {"ssl.truststore.location": str(other.trusted)}
    )
    for result in all_refused(secured, "SASL_SSL", config):
        assert "certificate" in result.output + result.errors, result


@pytest.mark.parametrize(
    ("protocol", "listener", "reason"),
    [
        ("SSL", "PLAINTEXT", "SSL handshake failed: the connection was closed"),
        ("PLAINTEXT", "SSL", "speaks TLS; security.protocol has to say so"),
        ("SASL_SSL", "SASL_PLAINTEXT", "SSL handshake failed: the connection was closed"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "does not serve SASL mechanism PLAIN"),
    ],
)
def test_other_protocol_than_the_port_has_is_one_line(
    secured: Secured, protocol: str, listener: str, reason: str
) -> None:
    config = secured.file(secured.client(protocol, "PLAIN" if "SASL" in protocol else ""))
    words = ["--bootstrap-server", secured.address(listener), "--command-config", config, "--list"]
    result = our_tool_here("topics", words)
    assert result.exit_code == 1
    assert reason in result.output, result


def test_producer_without_a_right_reports_each_record_and_no_traceback(tmp_path: Path) -> None:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin",
    }
    with odradek_broker(tmp_path, overrides=settings) as broker:
        words = ["--bootstrap-server", broker.address, "--topic", "orders"]
        sent = our_tool("console-producer", words, "first\nsecond\n")
    assert "Traceback" not in sent.errors + sent.output
    assert (sent.output + sent.errors).count("Error when sending message to topic orders") == 2
