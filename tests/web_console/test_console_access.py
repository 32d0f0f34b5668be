"""Who may use the console, under which names, and that no page shows a secret."""

from __future__ import annotations

import base64
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest

from odradek.web_console.access import is_allowed_host
from tests.odradek.console_tools import our_tool_here
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.ports import free_port
from tests.web_console.console_process import WAIT_S, ConsoleProcess, web_console

pytestmark = pytest.mark.client

PASSWORD = "secret-of-ann"
BROKER_PASSWORD = "secret-of-the-broker"
CONSOLE_PASSWORD = "secret-of-the-console"
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with SASL/PLAIN."""
    port = free_port()
    settings = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{JAAS} username="admin" password="{BROKER_PASSWORD}" '
            f'user_admin="{BROKER_PASSWORD}" user_console="{CONSOLE_PASSWORD}";'
        ),
    }
    folder = tmp_path_factory.mktemp("broker")
    with odradek_broker(folder, overrides=settings, port=port) as process:
        yield process


def properties(folder: Path, password: str) -> str:
    """The path of a properties file with a login."""
    path = folder / f"{password}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={JAAS} username="console" password="{password}";\n'
    )
    return str(path)


@pytest.fixture(scope="module")
def console(
    broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    """A console with a user, and with two clusters, to one of which it cannot log in."""
    folder = tmp_path_factory.mktemp("console")
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (folder / "users").write_text(f"# who may look\nann:{hashed}\n")
    words = ["--users", str(folder / "users"), "--allowed-host", "Console.Example"]
    words += ["--bootstrap-server", f"right={broker.address}"]
    words += ["--bootstrap-server", f"wrong={broker.address}"]
    words += ["--command-config", f"right={properties(folder, CONSOLE_PASSWORD)}"]
    words += ["--command-config", f"wrong={properties(folder, 'not-the-password')}"]
    with web_console(folder, words) as process:
        yield process


def login(name: str = "ann", password: str = PASSWORD) -> dict[str, str]:
    encoded = base64.b64encode(f"{name}:{password}".encode()).decode()
    return {"Authorization": f"Basic {encoded}"}


def test_name_and_password_are_required(console: ConsoleProcess) -> None:
    paths = ("/clusters", "/api/clusters", "/live/clusters", "/static/console.js", "/absent")
    for path in paths:
        for headers in (
            {},
            login(password="wrong"),
            login(name="eve"),
            login(password=PASSWORD + "x" * 100),
            {"Authorization": "Basic !!!"},
            {"Authorization": "Basic \xe9"},
            {"Authorization": "Bearer x"},
        ):
            assert console.get(path, headers)[0] == 401, (path, headers)
    assert console.get("/clusters", login())[0] == 200
    assert console.get("/absent", login())[0] == 404


def test_only_names_of_the_console_are_served(console: ConsoleProcess) -> None:
    port = console.url.rpartition(":")[2]
    for host, status in (
        (f"localhost:{port}", 200),
        ("console.example", 200),
        (f"[::1]:{port}", 200),
        (f"evil.example:{port}", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ):
        assert console.get("/clusters", {**login(), "Host": host})[0] == status, host


def test_host_is_an_address_or_a_name_of_the_console() -> None:
    for header, expected in (
        ("10.0.0.7:80", True),
        ("[fe80::1]:80", True),
        ("[::1]", True),
        ("LOCALHOST", True),
        ("localhost.evil", False),
        ("[evil]:80", False),
        ("a:b:80", False),
        ("1.2.3.4.5", False),
    ):
        assert is_allowed_host(header, {"localhost"}) == expected, header


def test_no_page_shows_a_secret(console: ConsoleProcess) -> None:
    texts = []
    for cluster in ("right", "wrong"):
        for path in ("", "/brokers", "/brokers/0", "/topics", "/groups", "/access"):
            for prefix in ("", "/api"):
                status, text = console.get(f"{prefix}/clusters/{cluster}{path}", login())
                assert status == (200 if cluster == "right" else 503), text
                texts.append(text)
    texts.append(console.process.log.read_text())
    for secret in (PASSWORD, BROKER_PASSWORD, CONSOLE_PASSWORD, "not-the-password", "LoginModule"):
        assert not [text for text in texts if secret in text]
    assert "authentication failed" in texts[-2]
    configs = console.get("/api/clusters/right/brokers/0", login())[1]
    assert '"value":"[hidden]"' in configs


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["--listen", "0.0.0.0:0"], 2, "it needs --users, or --insecure"),
        (["--listen", "[::]:0"], 2, "it needs --users, or --insecure"),
        (["--listen", "here"], 2, "'here' is not HOST:PORT or PORT"),
        (["--users", "/absent"], 2, "/absent cannot be read: No such file or directory"),
        (["--command-config", "/absent"], 1, "/absent cannot be read: No such file or directory"),
        (["--command-config", "other=/dev/null"], 2, "there is no cluster 'other'"),
        (["--bootstrap-server", "cluster=127.0.0.1:2"], 2, "two clusters are called 'cluster'"),
        (["--bootstrap-server", "x=nowhere"], 1, "'nowhere' is not an address of a broker"),
        (["--bootstrap-server", "a/b=127.0.0.1:2"], 2, "'a/b' is not a name of letters"),
        (["--allowed-host", ""], 2, "--allowed-host: '' is not a name of a host"),
        (["--allowed-host", "http://kafka"], 2, "'http://kafka' is not a name of a host"),
        (["--tls-certificate", "/dev/null"], 1, "--tls-certificate"),
        (["--tls-key", "/dev/null"], 2, "--tls-key needs --tls-certificate"),
        (["--schema-registry", "nowhere"], 1, "--schema-registry"),
    ],
)
def test_wrong_command_line_is_refused(words: list[str], code: int, reason: str) -> None:
    result = our_tool_here("console", ["--bootstrap-server", "127.0.0.1:1", *words])
    assert (result.exit_code, reason in result.errors) == (code, True), result.errors


def test_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = our_tool_here("console", ["--bootstrap-server", "127.0.0.1:1"])
    assert result.exit_code == 1
    assert result.errors.startswith(
        "this command needs the library uvicorn: pip install '.[console]'"
    )


@pytest.mark.parametrize("line", ["ann", "ann:plain", "ann:$2b$04$short", ":x", ""])
def test_wrong_file_of_users_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "users").write_text(f"{line}\n")
    words = ["--bootstrap-server", "127.0.0.1:1", "--users", str(tmp_path / "users")]
    result = our_tool_here("console", words)
    assert result.exit_code == 2
    assert result.errors.startswith("--users: ")
    assert "plain" not in result.errors.removeprefix("--users: ").partition(" of ")[0]


def test_signal_ends_the_console_and_its_live_pages(tmp_path: Path) -> None:
    with web_console(tmp_path, ["--bootstrap-server", "127.0.0.1:1"]) as console:
        with urllib.request.urlopen(f"{console.url}/live/clusters", timeout=WAIT_S) as response:
            assert response.readline() == b"event: content\n"
            assert console.process.stop(timeout_s=WAIT_S) == 0
        assert len(console.process.log.read_text().splitlines()) == 1


def test_other_address_is_served_when_it_is_asked_for(tmp_path: Path) -> None:
    words = ["--bootstrap-server", "127.0.0.1:1", "--insecure", "--listen", "0.0.0.0:0"]
    with web_console(tmp_path, words) as console:
        port = console.url.rpartition(":")[2]
        console.url = f"http://127.0.0.1:{port}"
        assert console.get("/clusters")[0] == 200
