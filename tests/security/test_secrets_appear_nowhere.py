"""Secrets of a broker, its users and clients are in nothing that it or a tool shows or stores."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.odradek.console_tools import our_tool, our_tool_here
from tests.security.secured import MODULES, TOKEN_KEY, USERS, Secured, jaas, secured_odradek
from tests.support.certificates import PASSWORD
from tests.support.ports import free_port
from tests.support.wire import Wire

pytestmark = [pytest.mark.timeout(600), pytest.mark.client]

ENCODER: Final = "secret-of-the-password-encoder"
WRONG: Final = "wrong-pass-word"
ALTERED: Final = "altered-scram-password"
DYNAMIC: Final = "dynamic-pass-word"
REFUSED: Final = "refused-pass-word"
MODULE_OPTION: Final = "option-of-a-login-module"
BROKER: Final = "0"
STORE_PASSWORD: Final = "listener.name.plaintext.ssl.key.password"


@dataclass
class SecretBroker(Secured):
    """A running broker with a page of metrics, and with a secret for stored passwords."""

    def __post_init__(self) -> None:
        self.metrics = f"127.0.0.1:{free_port()}"

    def settings(self) -> dict[str, str]:
        """Settings of the broker."""
        return {
            **super().settings(),
            "password.encoder.secret": ENCODER,
            "odradek.metrics.listener": self.metrics,
        }


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecretBroker]:
    with secured_odradek(tmp_path_factory.mktemp("secrets"), SecretBroker) as running:
        assert isinstance(running, SecretBroker)
        running.add_scram_users()
        yield running


def forms(secret: str) -> Mapping[str, str]:
    """How a secret may be written."""
    content = secret.encode()
    return {
        "as it is": secret,
        "escaped": secret.replace("\\", "\\\\").replace('"', '\\"'),
        "hexadecimal": content.hex(),
        # Whatever precedes it in what is encoded.
        **{
            f"{alphabet.__name__} after {skipped} bytes": alphabet(b"\0" * skipped + content)
            .decode()
            .rstrip("=")[4 if skipped else 0 : -2]
            for skipped in range(3)
            for alphabet in (b64encode, urlsafe_b64encode)
        },
    }


def showing(shown: Mapping[str, str], secrets: Mapping[str, str]) -> list[str]:
    """Where which secret is."""
    return [
        f"{secret} {form} in {place}"
        for secret, value in secrets.items()
        for form, text in forms(value).items()
        for place, content in shown.items()
        if text in content
    ]


def test_secret_is_noticed_in_each_form() -> None:
    for before in (b"", b"u", b"\0a", b"abc"):
        text = b64encode(before + b"a-long-password" + b"\0z").decode()
        assert showing({"a line": text}, {"password": "a-long-password"})
    assert showing({"a line": b"a-long-password".hex()}, {"password": "a-long-password"})


SECRETS: Final = {
    **{f"the password of {user}": password for user, password in USERS.items()},
    "the wrong password": WRONG,
    "the altered password": ALTERED,
    "the dynamic password": DYNAMIC,
    "the refused password": REFUSED,
    "the option of a login module": MODULE_OPTION,
    "the password of stores": PASSWORD,
    "the secret of the encoder": ENCODER,
    "the key of tokens": TOKEN_KEY,
}


def log_in(broker: SecretBroker, shown: dict[str, str]) -> None:
    """With every mechanism, right and wrong, by librdkafka and by a tool."""
    for mechanism in MODULES:
        for is_wrong in (False, True):
            configs = broker.client("SASL_SSL", mechanism)
            if is_wrong and mechanism == "OAUTHBEARER":
                configs["sasl.jaas.config"] = jaas(mechanism, unsecuredLoginStringClaim_x=WRONG)
            elif is_wrong:
                wrong = jaas(mechanism, username="alice", password=WRONG)
                configs["sasl.jaas.config"] = wrong
            words = ["--bootstrap-server", broker.address("SASL_SSL"), "--list"]
            words += ["--command-config", broker.file(configs)]
            result = our_tool_here("topics", words)
            assert (result.exit_code == 0) == (not is_wrong), result
            shown[f"topics, {mechanism}, {is_wrong}"] = result.output + result.errors
    sent = ["--bootstrap-server", broker.address("SASL_SSL"), "--topic", "t"]
    sent += ["--producer.config", broker.file(configs)]
    result = our_tool("console-producer", sent, "x\n")
    shown["console-producer"] = result.output + result.errors
    with Wire(broker.address("SASL_PLAINTEXT")) as wire:
        wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        cut = SaslAuthenticateRequest(auth_bytes=f"\0alice\0{WRONG}\0".encode())
        shown["a token of PLAIN that is cut"] = repr(wire.call(cut, 2))


def alter(broker: SecretBroker, shown: dict[str, str]) -> None:
    """SCRAM users, and passwords among dynamic settings: accepted ones and refused ones."""
    admin: Any = AdminClient({"bootstrap.servers": broker.address("PLAINTEXT")})
    for iterations in (4_096, 1):
        information = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, iterations)
        upsertion = UserScramCredentialUpsertion("carol", information, ALTERED.encode())
        (stored,) = admin.alter_user_scram_credentials([upsertion]).values()
        shown[f"SCRAM with {iterations} iterations"] = outcome(stored)
    module = f'no.such.Module required x="{MODULE_OPTION}";'
    for name, value in (
        (STORE_PASSWORD, DYNAMIC),
        ("listener.name.ssl.ssl.keystore.password", REFUSED),
        ("listener.name.sasl_ssl.plain.sasl.jaas.config", module),
        ("password.encoder.secret", REFUSED),
        ("log.cleaner.threads", "not-a-number"),
    ):
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, BROKER, incremental_configs=[entry])
        (altered,) = admin.incremental_alter_configs([resource]).values()
        shown[f"alter {name}"] = outcome(altered)
    for kind, name in ((ResourceType.BROKER, BROKER),):
        (described,) = admin.describe_configs([ConfigResource(kind, name)]).values()
        configs = described.result(60)
        assert configs[STORE_PASSWORD].value is None
        assert configs[STORE_PASSWORD].is_sensitive
        shown["DescribeConfigs"] = repr(
            {
                each.name: (each.value, {s.name: s.value for s in each.synonyms.values()})
                for each in configs.values()
            }
        )
    shown["users"] = repr(admin.describe_user_scram_credentials().result(60))


def outcome(future: Any) -> str:
    """Its result, or the error."""
    try:
        return repr(future.result(60))
    except KafkaException as error:
        return repr(error)


def use_tools(broker: SecretBroker, shown: dict[str, str]) -> None:
    """Command lines that print settings, users and errors."""
    at = ["--bootstrap-server", broker.address("PLAINTEXT")]
    for words in (
        ["configs", "--describe", "--entity-type", "brokers", "--entity-name", BROKER, "--all"],
        ["configs", "--describe", "--entity-type", "users"],
        ["configs", "--alter", "--entity-type", "users", "--entity-name", "alice",
         "--add-config", f"SCRAM-SHA-256=[iterations=1,password={ALTERED}]"],
        ["configs", "--alter", "--entity-type", "users", "--entity-name", "alice",
         "--add-config", f"SCRAM-SHA-1=[password={ALTERED}]"],
        ["configs", "--alter", "--entity-type", "brokers", "--entity-name", BROKER,
         "--add-config", f"{STORE_PASSWORD}={DYNAMIC}"],
    ):  # fmt: skip
        result = our_tool_here(words[0], [*at, *words[1:]])
        shown[" ".join(words[:6])] = result.output + result.errors
    for name, text in (
        ("ssl.keystore.password", REFUSED),
        ("sasl.jaas.config", f'{MODULES["PLAIN"]} required password="{REFUSED}'),
        ("sasl.jaas.config", f"{MODULES['PLAIN']} {REFUSED};"),
        ("sasl.jaas.config", f'no.Module required password="{REFUSED}";'),
    ):
        configs = broker.client("SASL_SSL", "PLAIN") | {
            "ssl.keystore.location": str(broker.authority.client().pkcs12()),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.password": PASSWORD,
            name: text,
        }
        words = ["--bootstrap-server", broker.address("SASL_SSL"), "--list"]
        config = broker.file(configs)
        for tool, option in (
            ("topics", "--command-config"),
            ("console-consumer", "--consumer.config"),
        ):
            more = ["--topic", "t"] if tool == "console-consumer" else ["--list"]
            result = our_tool(tool, [*words[:2], *more, option, config])
            assert result.exit_code != 0, result
            shown[f"{tool} with {name}={text}".replace(REFUSED, "...")] = (
                result.output + result.errors
            )


def start_in_vain(broker: SecretBroker, shown: dict[str, str]) -> None:
    """Brokers that do not start, because of a value near a secret."""
    module = f'no.Module required x="{MODULE_OPTION}";'
    jaas_config = "plain.sasl.jaas.config"
    in_vain = {
        "ssl.keystore.password": REFUSED,
        f"listener.name.sasl_ssl.{jaas_config}": module,
        f"listener.name.sasl_plaintext.{jaas_config}": f'{MODULES["PLAIN"]} "{MODULE_OPTION}',
        "password.encoder.iterations": REFUSED + "-is-shown",
        "delegation.token.max.lifetime.ms": "-5",
    }
    for number, (name, text) in enumerate(in_vain.items()):
        folder = broker.folder / f"in-vain-{number}"
        (folder / "data").mkdir(parents=True)
        settings = {**broker.settings(), "log.dirs": str(folder / "data"), name: text}
        file = folder / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [sys.executable, "-I", "-m", "odradek", "start", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0, name
        # A value of a number is shown, and this one is none.
        printed = (done.stdout + done.stderr).replace(REFUSED + "-is-shown", "")
        shown[f"start with {name}"] = printed


def test_secrets_are_in_no_log_response_page_file_or_process_list(broker: SecretBroker) -> None:
    shown: dict[str, str] = {}
    at = ["--bootstrap-server", broker.address("PLAINTEXT"), "--alter"]
    at += ["--entity-type", "broker-loggers", "--entity-name", BROKER]
    result = our_tool_here("configs", [*at, "--add-config", "kafka.request.logger=DEBUG"])
    assert result.exit_code == 0, result
    log_in(broker, shown)
    alter(broker, shown)
    use_tools(broker, shown)
    start_in_vain(broker, shown)
    token = our_tool_here(
        "delegation-tokens",
        [
            *("--bootstrap-server", broker.address("SASL_SSL"), "--command-config"),
            broker.file(broker.client("SASL_SSL", "SCRAM-SHA-512")),
            *("--create", "--max-life-time-period", "-1"),
        ],
    )
    hmac = next(word for word in token.output.split() if len(word) == 88)
    assert broker.process is not None
    for path in ("/metrics", "/metrics.json", "/health/cluster"):
        with urllib.request.urlopen(f"http://{broker.metrics}{path}", timeout=60) as response:
            shown[path] = response.read().decode()
    for file in ("cmdline", "environ"):
        shown[file] = Path(f"/proc/{broker.process.pid}/{file}").read_text(errors="replace")
    shown["the log"] = (broker.folder / "broker.log").read_text()
    assert "ALTER_USER_SCRAM_CREDENTIALS" in shown["the log"]
    for stored in (broker.folder / "data").rglob("*"):
        if stored.is_file():
            shown[str(stored)] = stored.read_bytes().decode("latin-1")
    assert not showing(shown, {**SECRETS, "the HMAC of a token": hmac})
