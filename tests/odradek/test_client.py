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
from tests.odradek.scripted_broker import Answer, LastWords, Request, scripted_broker
from tests.odradek.topics_tools import our_tool
from tests.support.processes import free_port

FAILED = "Error while executing topic command : "
NOT_CONTROLLER = 41


def fails(address: str, problem: str) -> None:
    """`topics --list` says in one line what is wrong, and has no more to say."""
    result = our_tool(["--bootstrap-server", address, "--list"])
    assert (result.exit_code, result.errors) == (1, "")
    assert result.output.startswith(f"{FAILED}{address} {problem}")
    assert result.output.count("\n") == 1


def fails_with(answers: list[Answer], problem: str, key: ApiKey = ApiKey.METADATA) -> None:
    with scripted_broker({key: answers}) as broker:
        fails(broker.bootstrap, problem)


def test_nobody_who_listens_is_told_at_once() -> None:
    fails(f"127.0.0.1:{free_port()}", "cannot be reached: Connection refused")


def test_a_host_without_an_address_is_told() -> None:
    fails(f"{'x' * 70}:9092", "cannot be reached: ")


@pytest.mark.parametrize(
    "text", ["", "localhost", "localhost:", ":9092", "a:0", "a:65536", "a:x", "a:1,", "a:1,b"]
)
def test_what_is_no_address_is_refused_before_anything_is_tried(text: str) -> None:
    result = our_tool(["--bootstrap-server", text, "--list"])
    wrong = text.split(",")[-1]
    assert (result.exit_code, result.output) == (1, "")
    assert result.errors == f"'{wrong}' is not an address of a broker (host:port)\n"


def test_several_addresses_may_stand_in_a_row() -> None:
    assert parse_bootstrap("a:1, b.c:23 ,[::1]:9092") == [("a", 1), ("b.c", 23), ("::1", 9092)]


def test_the_first_address_that_answers_counts() -> None:
    with scripted_broker({}) as broker:
        dead = f"127.0.0.1:{free_port()}"
        result = our_tool(["--bootstrap-server", f"{dead},{broker.bootstrap}", "--list"])
    assert (result.exit_code, result.output) == (0, "\n")


def test_a_connection_closed_instead_of_an_answer_is_told() -> None:
    fails_with([lambda _: None], "closed the connection")
    fails_with([lambda _: None], "closed the connection", ApiKey.API_VERSIONS)


@pytest.mark.parametrize("kept", [1, 3, 4, 7, 20, -1])
def test_a_connection_closed_in_the_middle_of_an_answer_is_told(kept: int) -> None:
    fails_with([lambda request: LastWords(request.metadata()[:kept])], "closed the connection")


def test_an_answer_that_does_not_go_on_is_told_when_the_time_is_up() -> None:
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
def test_an_answer_that_is_none_is_told(spoil: Callable[[Request], bytes], problem: str) -> None:
    fails_with([spoil], problem)


def test_the_answer_to_another_request_is_told() -> None:
    def other(request: Request) -> bytes:
        body = CreateTopicsResponse(topics=[])
        return request.answer(body, correlation_id=77)

    with scripted_broker({ApiKey.CREATE_TOPICS: [other]}) as broker:
        client = Client(broker.bootstrap)
        request = CreateTopicsRequest(topics=[])
        with pytest.raises(ClientError, match="its correlation id is 77"):
            client.any_broker(ApiKey.CREATE_TOPICS, request, CreateTopicsResponse)
        client.close()


def test_an_api_that_the_broker_lacks_is_told() -> None:
    with scripted_broker({}) as broker:
        client = Client(broker.bootstrap)
        with pytest.raises(NotServedError, match="does not serve delete_topics"):
            client.any_broker(
                ApiKey.DELETE_TOPICS, DeleteTopicsRequest(timeout_ms=1), DeleteTopicsResponse
            )
        client.close()


def created(error_code: int) -> Answer:
    def answer(request: Request) -> bytes:
        result = CreatableTopicResult(name="a", error_code=error_code, configs=None)
        return request.answer(CreateTopicsResponse(topics=[result]))

    return answer


def test_a_broker_that_is_controller_no_more_is_not_the_last_word() -> None:
    answers = [created(NOT_CONTROLLER), created(NOT_CONTROLLER), created(0)]
    with scripted_broker({ApiKey.CREATE_TOPICS: answers}) as broker:
        result = our_tool(["--bootstrap-server", broker.bootstrap, "--create", "--topic", "a"])
        keys = [request.key for request in broker.requests]
    assert (result.exit_code, result.output) == (0, "Created topic a.\n")
    assert keys.count(ApiKey.CREATE_TOPICS) == 3


def test_a_cluster_that_finds_its_controller_is_waited_for() -> None:
    answers: list[Answer] = [
        lambda request: request.metadata(controller_id=-1),
        lambda request: request.metadata(),
    ]
    script = {ApiKey.METADATA: answers, ApiKey.CREATE_TOPICS: [created(0)]}
    with scripted_broker(script) as broker:
        result = our_tool(["--bootstrap-server", broker.bootstrap, "--create", "--topic", "a"])
    assert (result.exit_code, result.output) == (0, "Created topic a.\n")


def test_a_cluster_without_a_controller_is_told_when_the_time_is_up() -> None:
    def lost(request: Request) -> bytes:
        return request.metadata(controller_id=-1)

    with scripted_broker({ApiKey.METADATA: [lost], ApiKey.CREATE_TOPICS: [created(0)]}) as broker:
        client = Client(broker.bootstrap, timeout_ms=250)
        with pytest.raises(ClientError, match="no controller at the moment"):
            client.controller(
                ApiKey.CREATE_TOPICS,
                CreateTopicsRequest(topics=[]),
                CreateTopicsResponse,
                errors_of=lambda answer: [one.error_code for one in answer.topics],
            )
        client.close()


def test_the_client_id_comes_from_the_command_config(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# of the operators\nclient.id = night-shift\nrequest.timeout.ms=5000\n")
    with scripted_broker({}) as broker:
        at = ["--bootstrap-server", broker.bootstrap, "--command-config", str(file)]
        assert our_tool([*at, "--list"]).exit_code == 0
        assert {request.client_id for request in broker.requests} == {"night-shift"}


def test_a_command_config_that_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "nothing"
    secure = tmp_path / "secure"
    secure.write_text("security.protocol=SSL\n")
    for file, problem in (
        (missing, " cannot be read: No such file or directory"),
        (secure, ": security.protocol=SSL is not supported by this tool"),
    ):
        result = our_tool(
            ["--bootstrap-server", "127.0.0.1:1", "--list", "--command-config", str(file)]
        )
        assert (result.exit_code, result.output) == (1, "")
        assert result.errors == f"{file}{problem}\n"
