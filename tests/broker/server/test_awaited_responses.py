"""Responses that are made when a result is done: a handler awaits it."""

from __future__ import annotations

import contextlib
import gc
import logging
import socket
import weakref
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from odradek.broker.handlers.shared.handler import Outcome, Reply
from odradek.broker.handlers.shared.table import HANDLERS
from odradek.broker.purgatory import Delayed
from odradek.broker.server.call import Call, LoadedApi
from odradek.broker.server.connection import Connection
from odradek.broker.server.outcomes import Outcomes
from odradek.controller.coordination.errors import ConnectionLoss
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.frames import BufferPool, FrameReader, ScratchBuffer
from odradek.protocol.headers import RequestHeader
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.runtime.pending import Pending
from odradek.runtime.work import Later, pause
from tests.support.machine_speed import slowness
from tests.support.node_here import NodeHere, decoded, node_here

VERSION: Final = 4
LONGEST_NS_MAX: Final = 10_000_000
"""Processor time of a callback on the reference machine."""


class Client:
    """A connection whose requests are Heartbeat v4, with outcomes that the test chooses."""

    def __init__(self, here: NodeHere) -> None:
        self.here = here
        self.client, connected = socket.socketpair()
        self.client.setblocking(False)
        connected.setblocking(False)
        reader = FrameReader(ScratchBuffer(), BufferPool(free_bytes_max=0), 1 << 20)
        self.connection = Connection(
            here.server.context, connected, reader, number=1, listener_name="", client_host="here"
        )
        self.budget = here.server.budget
        self.metrics = here.node.services.metrics
        self._outcomes = Outcomes(here.node.services, here.server.scheduler, self.budget)
        (api,) = (api for api in HANDLERS if api.key == ApiKey.HEARTBEAT)
        self._loaded = LoadedApi(api, here.node.services)
        self._loaded.prepare(VERSION)
        self._received = b""
        self.requests = 0

    def settle(self, outcome: Outcome) -> None:
        self._outcomes.settle(self._call(), outcome)
        self.connection.flush()

    def await_outcome(self, outcome: Outcome, charge: int) -> None:
        async def decide() -> Outcome:
            await pause()
            return outcome

        self.run(decide(), charge)

    def await_result(
        self, pending: Pending[int], respond: Callable[[int], Any], charge: int = 0
    ) -> None:
        async def decide() -> Outcome:
            response = respond(await pending)
            return Reply(await response if isinstance(response, Coroutine) else response)

        self.run(decide(), charge)

    def run(self, deciding: Later[Outcome], charge: int = 0) -> None:
        self.budget.charge(self.connection, charge)
        self._outcomes.begin(
            self.connection,
            self._outcomes.respond(self._call(), deciding, charge),
            reads_frame=False,
        )

    def _call(self) -> Call:
        self.requests += 1
        header = RequestHeader(
            api_key=ApiKey.HEARTBEAT,
            version=VERSION,
            correlation_id=self.requests,
            client_id="client",
        )
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        return Call(self.connection, header, self._loaded, request)

    def responses(self, count: int) -> list[tuple[int, int]]:
        """(correlation id, throttle time) of the responses received, `count` at least."""
        results: list[tuple[int, int]] = []

        def has_received() -> bool:
            with contextlib.suppress(BlockingIOError):
                self._received += self.client.recv(1 << 16)
            while self._received:
                end = 4 + int.from_bytes(self._received[:4], "big")
                frame, self._received = self._received[4:end], self._received[end:]
                response = decoded(frame, ApiKey.HEARTBEAT, VERSION)
                number = response.error_code or response.throttle_time_ms
                results.append((int.from_bytes(frame[:4], "big"), number))
            return len(results) >= count

        self.here.until(has_received, "responses are missing")
        return results


def response(number: int) -> HeartbeatResponse:
    """A response that is known by its number."""
    return HeartbeatResponse(throttle_time_ms=number, error_code=ErrorCode.NONE)


async def response_in_units(number: int) -> HeartbeatResponse:
    await pause()
    return response(number)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[NodeHere]:
    with node_here(tmp_path, log_cleaner_enable="false") as node:
        yield node


@pytest.fixture
def client(here: NodeHere) -> Iterator[Client]:
    made = Client(here)
    yield made
    made.connection.close()
    made.client.close()
    assert made.metrics.delayed_requests == 0
    assert made.budget.held_bytes == 0


def test_result_done_before_it_is_awaited_is_responded(client: Client) -> None:
    client.await_result(Pending.of(7), response)
    assert client.responses(1) == [(1, 7)]
    client.await_result(Pending.of(8), response_in_units)
    assert client.responses(1) == [(2, 8)]
    assert client.connection.is_idle()


@pytest.mark.parametrize("respond", [response, response_in_units])
def test_connection_is_neither_idle_nor_read_while_a_result_is_awaited(
    client: Client, respond: Callable[[int], Any]
) -> None:
    pending: Pending[int] = Pending()
    client.await_result(pending, respond)
    assert not client.connection.is_idle()
    assert client.connection.is_unread(), "the client's leaving must be noticed otherwise"
    client.here.turn()
    assert client.responses(0) == []
    pending.resolve(1)
    assert client.responses(1) == [(1, 1)]
    assert client.connection.is_idle()


def test_response_is_not_made_within_the_call_that_completes_the_result(client: Client) -> None:
    made: list[int] = []

    def respond(number: int) -> HeartbeatResponse:
        made.append(number)
        return response(number)

    pending: Pending[int] = Pending()
    client.await_result(pending, respond)
    pending.resolve(5)
    assert made == []
    assert client.responses(1) == [(1, 5)]
    assert made == [5]


def fail(number: int) -> HeartbeatResponse:
    raise BrokerError(ErrorCode.NOT_COORDINATOR)


async def break_down(number: int) -> HeartbeatResponse:
    await pause()
    raise ValueError("on purpose")


@pytest.mark.parametrize(
    ("respond", "code"),
    [(fail, ErrorCode.NOT_COORDINATOR), (break_down, ErrorCode.UNKNOWN_SERVER_ERROR)],
)
@pytest.mark.parametrize("is_done", [False, True])
def test_respond_that_fails_returns_its_error(
    client: Client,
    caplog: pytest.LogCaptureFixture,
    respond: Callable[[int], Any],
    code: ErrorCode,
    is_done: bool,
) -> None:
    caplog.set_level(logging.CRITICAL)
    pending: Pending[int] = Pending()
    if is_done:
        pending.resolve(1)
    client.await_result(pending, respond)
    if not is_done:
        pending.resolve(1)
    assert client.responses(1) == [(1, code)]


def test_result_that_failed_returns_its_error(client: Client) -> None:
    pending: Pending[int] = Pending()
    client.await_result(pending, response)
    pending.fail(BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert client.responses(1) == [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE)]


def test_result_that_failed_for_want_of_coordination_is_logged_without_a_traceback(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    pending: Pending[int] = Pending()
    client.await_result(pending, response)
    pending.fail(ConnectionLoss("the connection is lost"))
    assert client.responses(1) == [(1, ErrorCode.UNKNOWN_SERVER_ERROR)]
    (line,) = (record for record in caplog.records if "HEARTBEAT" in record.getMessage())
    assert (line.levelno, line.exc_info) == (logging.WARNING, None)
    assert client.metrics.request_errors == 0


def test_charge_of_a_large_request_is_held_until_its_response(client: Client) -> None:
    pending: Pending[int] = Pending()
    client.await_result(pending, response, 1_000)
    assert client.budget.held_bytes == 1_000
    pending.resolve(1)
    assert client.responses(1) == [(1, 1)]
    assert client.budget.held_bytes == 0


def test_charge_is_held_while_the_response_of_a_parked_request_is_made(client: Client) -> None:
    charged: list[int] = []

    async def making() -> HeartbeatResponse:
        charged.append(client.budget.held_bytes)
        await pause()
        charged.append(client.budget.held_bytes)
        return response(1)

    parked = Delayed(attempt=lambda: None, expire=making, timeout_ms=1, watch=())
    client.await_outcome(parked, 1_000)
    assert client.responses(1) == [(1, 1)]
    assert charged == [1_000, 1_000]
    assert client.budget.held_bytes == 0


class Held:
    """What a response is made from."""


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Only counted references keep anything, as in a broker for a long time."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("end", ["closed", "closed, then done", "done, then closed", "responded"])
def test_request_is_not_kept_once_it_has_ended(client: Client, end: str) -> None:
    held = Held()
    seen = weakref.ref(held)
    pending: Pending[int] = Pending()

    def respond(number: int, held: Held = held) -> HeartbeatResponse:
        return response(number)

    client.await_result(pending, respond, 1_000)
    del held, respond
    if end.startswith("closed"):
        client.connection.close()
        assert seen() is None
        if end.endswith("done"):
            pending.resolve(1)
            client.here.turn()
    else:
        pending.resolve(1)
        if end == "responded":
            assert client.responses(1) == [(1, 1)]
        else:
            client.connection.close()
    assert seen() is None
    assert client.connection.under_way is None
    assert client.budget.held_bytes == 0
    assert client.here.failures == []


def test_many_results_done_at_once_are_responded_in_slices(here: NodeHere) -> None:
    pending: Pending[int] = Pending()

    async def slow(number: int) -> HeartbeatResponse:
        for _ in range(100):
            sum(range(2_000))
            await pause()
        return response(number)

    clients = [Client(here) for _ in range(50)]
    for each in clients:
        each.await_result(pending, slow)
    here.longest_ns = 0
    pending.resolve(1)
    assert [each.responses(1) for each in clients] == [[(1, 1)]] * 50
    excess = here.longest_ns / LONGEST_NS_MAX
    assert excess < 1.0 or excess / slowness() < 1.0, here.longest
    for each in clients:
        each.connection.close()
        each.client.close()


def test_handler_that_awaits_a_result_goes_on_with_its_value_or_its_error(client: Client) -> None:
    results: list[object] = []
    first: Pending[int] = Pending()
    second: Pending[int] = Pending()

    async def decide() -> Outcome:
        results.append(await first)
        try:
            await second
        except BrokerError as error:
            results.append(error.code)
        results.append(await Pending.of(3))
        return Reply(HeartbeatResponse(throttle_time_ms=7, error_code=ErrorCode.NONE))

    client.run(decide())
    client.here.turn()
    assert results == []
    first.resolve(1)
    client.here.until(lambda: results == [1], "the first result is not there")
    second.fail(BrokerError(ErrorCode.NOT_COORDINATOR))
    assert client.responses(1) == [(1, 7)]
    assert results == [1, ErrorCode.NOT_COORDINATOR, 3]
