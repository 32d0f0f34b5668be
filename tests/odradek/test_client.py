from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.tools.client import Client, ClientError, NotServedError, parse_bootstrap
from odradek.tools.topics.requests import new_topic
from tests.odradek.scripted_broker import (
    LastBytes,
    Request,
    ScriptedResponse,
    scripted_broker,
    versions,
)
from tests.odradek.topics_tools import our_tool
from tests.support.ports import free_port

FAILED = "Error while executing topic command : "
NOT_CONTROLLER = 41
STALL_MS = 3_000
"""Longer than a busy machine keeps the scripted broker from its response."""
WORD = b"a\xff".decode(errors="surrogateescape")
"""An argument with a byte that is not text."""


def fails(address: str, problem: str) -> None:
    """Check that `topics --list` prints one line with `problem`, and nothing else."""
    result = our_tool(["--bootstrap-server", address, "--list"])
    assert (result.exit_code, result.errors) == (1, "")
    assert result.output.startswith(f"{FAILED}{address} {problem}")
    assert result.output.count("\n") == 1


def fails_with(
    responses: list[ScriptedResponse], problem: str, key: ApiKey = ApiKey.METADATA
) -> None:
    with scripted_broker({key: responses}) as broker:
        fails(broker.bootstrap, problem)


def test_unreachable_address_fails_at_once() -> None:
    fails(f"127.0.0.1:{free_port()}", "cannot be reached: Connection refused")


def test_unresolvable_host_is_an_error() -> None:
    fails(f"{'x' * 70}:9092", "cannot be reached: ")


@pytest.mark.parametrize(
    "text", ["", "localhost", "localhost:", ":9092", "a:0", "a:65536", "a:x", "a:1,b", ",", " , "]
)
def test_invalid_address_is_an_error_before_a_connection(text: str) -> None:
    result = our_tool(["--bootstrap-server", text, "--list"])
    wrong = text.split(",")[-1] if text.strip(" ,") else text.strip()
    assert (result.exit_code, result.output) == (1, "")
    assert result.errors == f"'{wrong}' is not an address of a broker (host:port)\n"


def test_several_addresses_are_separated_by_commas() -> None:
    expected = [("a", 1), ("b.c", 23), ("::1", 9092)]
    assert parse_bootstrap("a:1, b.c:23 ,[::1]:9092") == expected
    assert parse_bootstrap(" a:1 ,, b.c:23,[::1]:9092 , ") == expected


def test_long_address_is_shown_cut() -> None:
    with pytest.raises(ClientError) as raised:
        parse_bootstrap(f"a:{'9' * 5_000}")
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("host", ["a..b", "x" * 70])
def test_host_that_no_resolver_takes_is_an_error_in_words(host: str) -> None:
    fails(f"{host}:9092", "cannot be reached: the host is not a name that DNS can have\n")


def test_first_reachable_address_is_used() -> None:
    with scripted_broker({}) as broker:
        dead = f"127.0.0.1:{free_port()}"
        result = our_tool(["--bootstrap-server", f"{dead},{broker.bootstrap}", "--list"])
    assert (result.exit_code, result.output) == (0, "\n")


def test_connection_closed_before_the_response_is_an_error() -> None:
    fails_with([lambda _: None], "closed the connection")
    fails_with([lambda _: None], "closed the connection", ApiKey.API_VERSIONS)


@pytest.mark.parametrize("kept", [1, 3, 4, 7, 20, -1])
def test_connection_closed_within_the_response_is_an_error(kept: int) -> None:
    fails_with([lambda request: LastBytes(request.metadata()[:kept])], "closed the connection")


def test_incomplete_response_times_out() -> None:
    with scripted_broker({ApiKey.METADATA: [lambda request: request.metadata()[:7]]}) as broker:
        client = Client(broker.bootstrap, timeout_ms=200)
        with pytest.raises(ClientError, match="does not respond: timed out"):
            client.metadata()
        client.close()


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda request: b"HTTP/1.1 400 Bad Request\r\n", "does not speak Kafka's protocol"),
        (lambda request: b"\xff\xff\xff\xff", "does not speak Kafka's protocol"),
        (lambda request: bytes(4), "sends an unreadable response"),
        (lambda request: b"\0\0\0\4" + bytes(4), "sends an unreadable response"),
        (
            lambda request: request.metadata()[:4] + request.metadata()[4:][::-1],
            "sends an unreadable response",
        ),
    ],
)
def test_unreadable_response_is_an_error(spoil: Callable[[Request], bytes], problem: str) -> None:
    fails_with([spoil], problem)


def test_response_with_another_correlation_id_is_an_error() -> None:
    def other(request: Request) -> bytes:
        body = CreateTopicsResponse(topics=[])
        return request.response(body, correlation_id=77)

    with scripted_broker({ApiKey.CREATE_TOPICS: [other]}) as broker:
        client = Client(broker.bootstrap)
        request = CreateTopicsRequest(topics=[])
        with pytest.raises(ClientError, match="its correlation id is 77"):
            client.any_broker(request, CreateTopicsResponse)
        client.close()


def test_api_without_a_common_version_is_an_error() -> None:
    with scripted_broker({}) as broker:
        client = Client(broker.bootstrap)
        with pytest.raises(NotServedError, match="does not serve delete_topics"):
            client.any_broker(DeleteTopicsRequest(timeout_ms=1), DeleteTopicsResponse)
        client.close()


def created(error_code: int) -> ScriptedResponse:
    def response(request: Request) -> bytes:
        result = CreatableTopicResult(name="a", error_code=error_code, configs=None)
        return request.response(CreateTopicsResponse(topics=[result]))

    return response


def test_request_is_repeated_after_not_controller() -> None:
    responses = [created(NOT_CONTROLLER), created(NOT_CONTROLLER), created(0)]
    with scripted_broker({ApiKey.CREATE_TOPICS: responses}) as broker:
        result = our_tool(["--bootstrap-server", broker.bootstrap, "--create", "--topic", "a"])
        keys = [request.key for request in broker.requests]
    assert (result.exit_code, result.output) == (0, "Created topic a.\n")
    assert keys.count(ApiKey.CREATE_TOPICS) == 3


def test_request_waits_until_the_cluster_has_a_controller() -> None:
    responses: list[ScriptedResponse] = [
        lambda request: request.metadata(controller_id=-1),
        lambda request: request.metadata(),
    ]
    script = {ApiKey.METADATA: responses, ApiKey.CREATE_TOPICS: [created(0)]}
    with scripted_broker(script) as broker:
        result = our_tool(["--bootstrap-server", broker.bootstrap, "--create", "--topic", "a"])
    assert (result.exit_code, result.output) == (0, "Created topic a.\n")


def test_cluster_without_a_controller_times_out() -> None:
    def lost(request: Request) -> bytes:
        return request.metadata(controller_id=-1)

    with scripted_broker({ApiKey.METADATA: [lost], ApiKey.CREATE_TOPICS: [created(0)]}) as broker:
        client = Client(broker.bootstrap, timeout_ms=STALL_MS)
        with pytest.raises(ClientError, match="no controller at the moment"):
            client.controller(CreateTopicsRequest(topics=[]), CreateTopicsResponse)
        client.close()


@pytest.mark.parametrize("ending", ["refused", "closed"])
def test_request_waits_for_the_next_controller_when_the_old_one_is_gone(ending: str) -> None:
    """Metadata names a controller that does not accept connections any more, or closes them."""
    with scripted_broker({ApiKey.CREATE_TOPICS: [lambda _: None]}) as gone:
        old = ("127.0.0.1", free_port()) if ending == "refused" else gone.address
        responses: list[ScriptedResponse] = [
            lambda request: request.metadata(others={1: old}, controller_id=1),
            lambda request: request.metadata(others={1: old}, controller_id=1),
            lambda request: request.metadata(others={1: old}, controller_id=0),
        ]
        script = {ApiKey.METADATA: responses, ApiKey.CREATE_TOPICS: [created(0)]}
        with scripted_broker(script) as broker:
            result = our_tool(["--bootstrap-server", broker.bootstrap, "--create", "--topic", "a"])
    assert (result.exit_code, result.output) == (0, "Created topic a.\n")


def test_request_asks_other_brokers_when_the_one_of_the_bootstrap_is_gone() -> None:
    script: dict[ApiKey, list[ScriptedResponse]] = {ApiKey.CREATE_TOPICS: [created(0)]}
    with scripted_broker(script) as other:
        gone: list[ScriptedResponse] = [
            lambda request: request.response(versions({ApiKey.CREATE_TOPICS: []})),
            lambda _: None,
        ]
        first: list[ScriptedResponse] = [
            lambda request: LastBytes(request.metadata(others={1: other.address}, controller_id=-1))
        ]
        with scripted_broker({ApiKey.METADATA: first, ApiKey.API_VERSIONS: gone}) as broker:
            client = Client(broker.bootstrap)
            response = client.controller(CreateTopicsRequest(topics=[]), CreateTopicsResponse)
            client.close()
    assert [topic.name for topic in response.topics] == ["a"]


def test_controller_that_stays_unreachable_is_an_error_after_the_time_out() -> None:
    old = ("127.0.0.1", free_port())

    def lost(request: Request) -> bytes:
        return request.metadata(others={1: old}, controller_id=1)

    with scripted_broker({ApiKey.METADATA: [lost], ApiKey.CREATE_TOPICS: [created(0)]}) as broker:
        client = Client(broker.bootstrap, timeout_ms=STALL_MS)
        with pytest.raises(ClientError, match=f"{old[1]} cannot be reached: Connection refused"):
            client.controller(CreateTopicsRequest(topics=[]), CreateTopicsResponse)
        client.close()


def test_word_that_is_not_text_is_an_error_and_sends_nothing() -> None:
    with scripted_broker({ApiKey.CREATE_TOPICS: []}) as broker:
        client = Client(broker.bootstrap)
        request = CreateTopicsRequest(topics=[new_topic(WORD, configs={})])
        reason = r"'a\\udcff' cannot be represented in a request: not UTF-8"
        with pytest.raises(ClientError, match=reason):
            client.any_broker(request, CreateTopicsResponse)
        assert client.metadata([]).brokers
        client.close()
        assert ApiKey.CREATE_TOPICS not in {sent.key for sent in broker.requests}


def test_client_id_is_read_from_the_command_config(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# of the operators\nclient.id = night-shift\nrequest.timeout.ms=5000\n")
    with scripted_broker({}) as broker:
        at = ["--bootstrap-server", broker.bootstrap, "--command-config", str(file)]
        assert our_tool([*at, "--list"]).exit_code == 0
        assert {request.client_id for request in broker.requests} == {"night-shift"}


def test_unusable_command_config_is_an_error(tmp_path: Path) -> None:
    missing = tmp_path / "nothing"
    secure = tmp_path / "secure"
    secure.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n")
    folder = tmp_path / "folder"
    folder.write_text(f"security.protocol=SSL\nssl.truststore.location={tmp_path}\n")
    inline = tmp_path / "inline"
    inline.write_text(
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates=x\n"
    )
    for file, problem in (
        (folder, f"ssl.truststore.location: {tmp_path}: Is a directory"),
        (inline, "ssl.truststore.certificates: it contains no certificate in PEM"),
        (missing, f"{missing} cannot be read: No such file or directory"),
        (secure, "sasl.jaas.config is missing, for security.protocol=SASL_SSL"),
    ):
        result = our_tool(
            ["--bootstrap-server", "127.0.0.1:1", "--list", "--command-config", str(file)]
        )
        assert (result.exit_code, result.output) == (1, "")
        assert result.errors == f"{problem}\n"
