"""The control channel of a broker of tests, as a program in any language uses it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import Any

import pytest

from odradek.testing import Broker, ControlFailed
from odradek.testing.node.control.http_server import BODY_BYTES_MAX, CONNECTIONS_MAX
from odradek.testing.node.control.routes import Arguments, ControlError, Routes

WAIT_S = 60.0
START = [sys.executable, "-I", "-m", "odradek", "start"]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def ask(
    broker: Broker,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, Any]:
    """Status and content of a response."""
    connection = HTTPConnection(broker.control.url.removeprefix("http://"), timeout=WAIT_S)
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    content = json.loads(response.read())
    connection.close()
    return response.status, content


def test_routes_are_listed_with_their_arguments(broker: Broker) -> None:
    status, content = ask(broker, "GET", "/")
    assert status == 200
    rows = {(row["method"], row["path"]): row for row in content["routes"]}
    assert rows["GET", "/broker"]["takes"] == []
    assert all(row["summary"] for row in rows.values())


def test_broker_describes_itself(broker: Broker) -> None:
    status, content = ask(broker, "GET", "/broker")
    assert status == 200
    assert content["listeners"] == [broker.bootstrap_servers]
    assert content["broker_id"] == content["controller_id"] == 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("GET", "/nothing", None, 404, "no route /nothing; GET / lists them"),
        ("POST", "/broker", b"{}", 405, "/broker is for GET, not POST"),
        ("POST", "/retention", b'{"topic": "a"}', 400, "there is no argument topic"),
        ("POST", "/retention", b"{", 400, "the body is not JSON"),
        ("POST", "/retention", b"[]", 400, "the body is not a JSON object"),
        ("GET", "/broker?x=1", None, 400, "there is no argument x"),
    ],
)
def test_wrong_request_is_refused_with_one_clear_line(
    broker: Broker, method: str, path: str, body: bytes | None, status: int, text: str
) -> None:
    code, content = ask(broker, method, path, body)
    assert code == status
    assert text in content["error"]
    assert "\n" not in content["error"]


def test_body_above_the_limit_is_refused_without_being_read(broker: Broker) -> None:
    headers = {"Content-Length": str(BODY_BYTES_MAX + 1)}
    assert ask(broker, "POST", "/retention", None, headers)[0] == 413


def test_request_of_a_web_page_is_refused(broker: Broker) -> None:
    assert ask(broker, "POST", "/retention", b"{}", {"Origin": "http://x"})[0] == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
def test_requests_that_name_this_machine_are_served(broker: Broker, host: str) -> None:
    port = broker.control.url.rpartition(":")[2]
    assert ask(broker, "GET", "/broker", headers={"Host": f"{host}:{port}"})[0] == 200


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("path", ["/broker", "/topics/a", "/requests", "/broker/keep-data"])
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "", "localhost.evil"])
def test_request_of_a_page_whose_name_was_rebound_is_refused(
    broker: Broker, method: str, path: str, host: str
) -> None:
    status, content = ask(broker, method, path, headers={"Host": host})
    assert status == 403
    assert "the channel is not for requests to" in content["error"]


def raw(broker: Broker, request: bytes) -> bytes:
    """The first bytes of a response."""
    address = broker.control.url.removeprefix("http://").split(":")
    with socket.create_connection((address[0], int(address[1])), WAIT_S) as connection:
        connection.sendall(request)
        return connection.recv(200)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":' * 50_000,
        b"[" * 5_000,
        b'{"ms":' + b"9" * 5_000 + b"}",
        b'{"ms":1e400}',
        b'{"ms":NaN}',
        b'{"topic":"\\ud800"}',
        b"\xff\xfe",
        b'{"ms":1',
    ],
    ids=["objects", "arrays", "digits", "infinite", "NaN", "surrogate", "not UTF-8", "cut"],
)
def test_malformed_body_is_refused_with_400(broker: Broker, body: bytes) -> None:
    status, content = ask(broker, "POST", "/clock/advance", body)
    assert (status, "JSON" in content["error"]) == (400, True)


@pytest.mark.parametrize(
    "line",
    [
        "GET http://[/ HTTP/1.1",
        f"GET /?{'&'.join(['a=1'] * 200)} HTTP/1.1",
        "GET /topics/%ff%00 HTTP/1.1",
        "GET /faults/" + "9" * 5_000 + " HTTP/1.1",
        "GET /faults/1/wait?hits=" + "9" * 5_000 + " HTTP/1.1",
        "GET / HTTP/9",
        "GET",
    ],
)
def test_malformed_target_gets_a_response_of_400_or_404(broker: Broker, line: str) -> None:
    host = broker.control.url.removeprefix("http://")
    response = raw(broker, f"{line}\r\nHost: {host}\r\n\r\n".encode())
    assert b" 400 " in response[:80] or b" 404 " in response[:80] or b" 505 " in response[:80]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("", 400),
        ("Host: HOST\r\nHost: evil", 400),
        ("Host: HOST\r\nContent-Length: " + "9" * 6_000, 413),
        ("Host: HOST\r\nContent-Length: -1", 400),
        ("Host: HOST\r\nContent-Length: \u00b2", 400),
        ("Host: HOST\r\nContent-Length: 1\r\nContent-Length: 2", 400),
        ("Host: HOST\r\nTransfer-Encoding: chunked", 411),
    ],
)
def test_malformed_headers_are_refused(broker: Broker, headers: str, status: int) -> None:
    text = headers.replace("HOST", broker.control.url.removeprefix("http://"))
    lines = ["POST /retention HTTP/1.1", *([text] if text else []), "", ""]
    request = "\r\n".join(lines).encode("latin-1")
    assert raw(broker, request).startswith(f"HTTP/1.1 {status} ".encode())


def test_connections_beyond_the_limit_are_closed_and_others_served() -> None:
    """A broker of its own: threads of earlier connections, or of these, may not have ended yet."""
    with Broker() as fresh, ExitStack() as connections:
        host, port = fresh.control.url.removeprefix("http://").split(":")

        def connected() -> socket.socket:
            return connections.enter_context(socket.create_connection((host, int(port)), WAIT_S))

        held = [connected() for _ in range(CONNECTIONS_MAX)]
        for connection in held:
            connection.sendall(f"GET /broker HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert all(connection.recv(100).startswith(b"HTTP/1.1 200") for connection in held)
        assert connected().recv(100) == b""


def test_client_fails_with_the_line_of_the_broker(broker: Broker) -> None:
    with pytest.raises(
        ControlFailed, match="POST /broker: /broker is for GET, not POST"
    ) as failure:
        broker.control.post("/broker")
    assert failure.value.status == 405


def test_broker_without_control_has_no_channel_and_loads_none_of_it() -> None:
    done = subprocess.run(
        [*START, "--control"], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 2
    assert "--control is for brokers of tests: it needs --ephemeral" in done.stderr
    loaded = "import sys, odradek.broker.node.process; print(*sys.modules, sep='\\n')"
    names = subprocess.run(
        [sys.executable, "-I", "-c", loaded], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not [name for name in names if "test_control" in name or name == "http.server"]


def test_port_that_is_taken_ends_the_start_with_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [*START, "--ephemeral", "--port", "0", "--control", port],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
    assert done.returncode == 1
    assert f"cannot serve the control channel on 127.0.0.1:{port}" in done.stderr


def test_segments_in_braces_are_arguments() -> None:
    routes = Routes()
    routes.add("DELETE", "/faults/{id}", "end it", lambda arguments: arguments.integer("id"))
    route, values = routes.find("DELETE", "/faults/7")
    assert route.run(Arguments(values)) == 7
    for path in ("/faults", "/faults/", "/faults/7/8"):
        with pytest.raises(ControlError) as error:
            routes.find("DELETE", path)
        assert error.value.status == 404


@pytest.mark.parametrize("value", [True, "x", 1.5, None, -1, 11])
def test_integer_out_of_its_range_is_refused(value: object) -> None:
    with pytest.raises(ControlError) as error:
        Arguments({"count": value}).integer("count", most=10)
    assert error.value.status == 400
