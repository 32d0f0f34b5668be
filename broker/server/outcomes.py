"""From a handler's outcome to the connection's response.

An unexpected exception, in a handler, in encoding or at the end of a turn, is responded to with
UNKNOWN_SERVER_ERROR or closes the connection of its request, and no other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from types import GeneratorType
from typing import Any

from odradek.broker.handlers.handler import (
    Close,
    Encoded,
    InThread,
    NoReply,
    Outcome,
    Reply,
    Staged,
    Steps,
    WhenDone,
)
from odradek.broker.purgatory import Delayed, ParkedRequest
from odradek.broker.server.budget import Budget
from odradek.broker.server.call import Call
from odradek.broker.server.connection import Connection
from odradek.broker.server.loaded_api import framed
from odradek.broker.server.rounds import Rounds, SlicedSteps
from odradek.broker.services import Services
from odradek.controller.coordination.errors import CoordinationError, StorageFailed
from odradek.protocol.compiler import step_encoder
from odradek.protocol.disposal import dispose_in_steps
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.gathered import Gathered
from odradek.protocol.response_queue import ResponseSlot
from odradek.runtime.pending import Pending

logger = logging.getLogger("odradek.server")


class ResponseTooLarge(Exception):
    """A response would take more memory than one may."""


class AwaitedResponse:
    """A request whose response is made when a result is done.

    It is made in the next round, not within the call that completes the result: its cost and its
    errors do not reach that caller.
    """

    __slots__ = ("work",)

    def __init__(self) -> None:
        self.work: SlicedSteps | None = None

    def on_done(self, pending: Pending[Any]) -> None:
        """Make the response, unless it is cancelled."""
        if self.work is not None:
            self.work.start_later()

    def cancel(self) -> None:
        """Give back the request; the result still refers to this object, which is empty then."""
        if self.work is not None:
            self.work.cancel()


class WaitingRequest:
    """A request in the purgatory, and the place of its response; its exceptions become errors.

    One object for all of it: each full garbage collection walks those of all that wait.
    """

    __slots__ = (
        "_call",
        "_charge",
        "_delayed",
        "_outcomes",
        "is_tried",
        "parked",
        "ready",
        "slot",
        "timeout_ms",
        "watch",
    )

    def __init__(self, outcomes: Outcomes, call: Call, delayed: Delayed, charge: int) -> None:
        self._outcomes = outcomes
        self._call = call
        self._delayed = delayed
        self._charge = charge
        self.watch = delayed.watch
        self.timeout_ms = delayed.timeout_ms
        self.is_tried = delayed.is_tried
        self.parked: ParkedRequest | None = None
        self.ready: Any | None = None
        """The response that was there at once."""
        self.slot: ResponseSlot | None = None

    def attempt(self) -> Any | None:
        """The response, or None: not yet."""
        return self._outcomes.guarded(self._call, self._delayed.attempt)

    def expire(self) -> Any:
        """The response when the time is up."""
        return self._outcomes.guarded(self._call, self._delayed.expire)

    def respond(self, response: Any) -> None:
        """Called once, with the response."""
        slot = self.slot
        if slot is None:
            self.ready = response
            return
        self.parked = None  # as a cycle they would keep the request
        self._call.connection.waiting.pop(self, None)
        self._outcomes.finish(self._call, slot, response, self._charge)

    def cancel(self) -> None:
        """Wait no more, without a response."""
        parked, self.parked = self.parked, None
        if parked is not None:
            parked.cancel()


class Outcomes:
    """Responds for the handlers of one node."""

    def __init__(self, services: Services, rounds: Rounds, budget: Budget) -> None:
        self._appends = services.appends
        self._clock = services.clock
        self._metrics = services.metrics
        self._purgatory = services.purgatory
        self._rounds = rounds
        self._budget = budget
        self.staged: list[tuple[Call, Staged]] = []
        """Produce requests whose batches are written at the end of the turn."""

    # Requests in slices.

    def begin(self, connection: Connection, steps: Steps[None]) -> None:
        """Run the first slice of these steps; the connection's next requests wait for the last.

        Here, and nowhere else, a request outlives its turn before its response is known: it keeps
        its memory, and what it has staged is written, since it may be cancelled.
        """
        connection.own_frames()
        self.write_staged(self._clock.now_ms())

        def failed(error: Exception) -> None:
            self._metrics.request_errors += 1
            logger.error("a request of %s failed", connection.client_host, exc_info=error)
            connection.close()

        work = SlicedSteps(self._rounds, steps, failed, connection.on_work_done)
        connection.under_way = work
        work.start()

    def in_steps(self, call: Call, steps: Steps[Outcome], charge: int = 0) -> Steps[None]:
        """Run a handler's steps and respond.

        charge  bytes of the budget that the request holds; released when the response is made
        """
        try:
            try:
                outcome = yield from steps
                if isinstance(outcome, Delayed | WhenDone):
                    ready = self._wait(call, outcome, charge)
                    if ready is None:
                        charge = 0
                        return
                    outcome = yield from replied(ready)
            except BrokerError as error:
                if not call.wants_response:
                    self.refuse(call, error)
                    return
                outcome = Reply((yield InThread(partial(call.failed, error.code, error.message))))
            except Exception:  # noqa: BLE001 - one request must not take the node down
                self.broken(call)
                return
            if isinstance(outcome, Reply):
                parts = yield from self._encode_in_steps(call, outcome.response)
                call.connection.respond(parts)
                call.connection.flush()  # the client need not wait for the disposal
                used = [outcome.response, call.request]
                outcome.response = call.request = None
                self._budget.release(call.connection, charge)
                charge = 0
                yield from dispose_in_steps(used)
            elif isinstance(outcome, Staged):
                self.staged.append((call, outcome))
            else:
                self.settle(call, outcome)
        finally:
            self._budget.release(call.connection, charge)

    def _encode_in_steps(self, call: Call, response: Any) -> Steps[list[Any]]:
        """The frame of a response; of an error when it would be too large."""
        bytes_max = self._budget.response_bytes_max
        encode = step_encoder(call.loaded.response, call.header.version)
        gathered = Gathered()
        try:
            for _ in encode(response, gathered):
                if gathered.held_bytes > bytes_max:
                    raise ResponseTooLarge
                yield None
        except ResponseTooLarge:
            call.loaded.release(response)
            message = f"the response would take more than {bytes_max} bytes"
            logger.warning("%s v%d: %s", call.loaded.name, call.header.version, message)
            refusal = yield InThread(partial(call.failed, ErrorCode.INVALID_REQUEST, message))
            gathered = Gathered()
            yield from encode(refusal, gathered)
        except BaseException:
            call.loaded.release(response)
            raise
        return framed(call.header, call.loaded, gathered.finish(), gathered.size_bytes)

    # Outcomes.

    def refuse(self, call: Call, error: BrokerError) -> None:
        """Respond with an error; Produce with acks=0 has its connection closed instead."""
        if call.wants_response:
            call.respond(call.failed(error.code, error.message))
        else:
            call.connection.close()

    def broken(self, call: Call) -> None:
        """Log the exception that is being handled, respond if that is possible, and close."""
        self._metrics.request_errors += 1
        header, connection = call.header, call.connection
        logger.exception(
            "%s v%d, correlation id %d, from %s failed",
            call.loaded.name,
            header.version,
            header.correlation_id,
            connection.client_host,
        )
        try:
            if not connection.is_closed and call.wants_response:
                parts = call.encoded(call.failed(ErrorCode.UNKNOWN_SERVER_ERROR, None))
                connection.respond(parts)
                connection.flush()
        finally:
            connection.close()

    def write_staged(self, now_ms: int) -> None:
        """Write the staged appends, one call per partition, and settle their requests.

        An exception closes the connection of its request, and the others go on.
        """
        staged, self.staged = self.staged, []
        try:
            self._appends.write(now_ms)
        except Exception:
            # A request whose batches have no result fails by that below.
            logger.exception("the appends of a turn failed")
        for call, outcome in staged:
            if call.connection.is_closed:
                continue
            try:
                self.settle(call, outcome.finish())
            except Exception:  # noqa: BLE001 - the other requests of the turn go on
                self._break(call)

    def _break(self, call: Call) -> None:
        """As `broken`, for callers whose other requests must go on."""
        try:
            self.broken(call)
        except Exception:  # the connection is closed
            logger.exception("%s could not be refused", call.loaded.name)

    def settle(self, call: Call, outcome: Outcome) -> None:
        """Respond as the outcome says, now or later."""
        if isinstance(outcome, Encoded):
            loaded, header = call.loaded, call.header
            head = loaded.heads[header.version]
            body = outcome.body
            frame = head.pack(head.size - 4 + len(body), header.correlation_id) + body
            call.connection.respond([frame])
        elif isinstance(outcome, Reply):
            try:
                call.respond(outcome.response)
            except Exception:  # noqa: BLE001 - what cannot be encoded is an error of its request
                self.broken(call)
        elif isinstance(outcome, Delayed | WhenDone):
            ready = self._wait(call, outcome)
            if type(ready) is GeneratorType:
                self.begin(call.connection, self.in_steps(call, replied(ready)))
            elif ready is not None:
                self.settle(call, Reply(ready))
        elif isinstance(outcome, Close):
            logger.info(
                "closing the connection of %s: %s", call.connection.client_host, outcome.reason
            )
            call.connection.close()
        else:
            assert isinstance(outcome, NoReply), "a staged outcome is settled at the turn's end"

    # Requests that wait.

    def _wait(self, call: Call, outcome: Delayed | WhenDone[Any], charge: int = 0) -> Any | None:
        """Reserve a place for the response and fill it later; the charge is released then.

        Returns None, or what is there at once: the response, or steps that make it.
        """
        if isinstance(outcome, Delayed):
            return self._park(call, outcome, charge)
        pending, respond = outcome.pending, outcome.respond

        def make() -> Any:
            return self.guarded(call, lambda: respond(pending.result()))

        if pending.is_done:
            return make()

        def steps() -> Steps[Any]:
            response = make()
            if type(response) is GeneratorType:
                response = yield from response
            return response

        connection, metrics = call.connection, self._metrics
        awaited = AwaitedResponse()
        slot = connection.reserve()

        def on_end() -> None:
            awaited.work = None  # as a cycle they would keep the request
            connection.waiting.pop(awaited, None)
            metrics.delayed_requests -= 1
            self._budget.release(connection, charge)

        awaited.work = self._filling(call, slot, steps(), on_end)
        connection.waiting[awaited] = None
        metrics.delayed_requests += 1
        pending.on_done(awaited.on_done)
        return None

    def _park(self, call: Call, delayed: Delayed, charge: int) -> Any | None:
        """`_wait` in the purgatory."""
        connection = call.connection
        waiting = WaitingRequest(self, call, delayed, charge)
        parked = self._purgatory.park(
            waiting, self._clock.monotonic_ms(), waiting.respond, connection.close
        )
        if parked is None:
            return waiting.ready
        waiting.parked = parked
        waiting.slot = connection.reserve()
        connection.waiting[waiting] = None
        return None

    def finish(self, call: Call, slot: ResponseSlot, response: Any, charge: int) -> None:
        """Send the response of a request that has waited in the purgatory."""
        connection = call.connection
        if type(response) is GeneratorType:
            if not connection.is_closed:
                release = partial(self._budget.release, connection, charge)
                self._filling(call, slot, response, release).start()
            return
        self._budget.release(connection, charge)
        if connection.is_closed:
            call.loaded.release(response)
            return
        try:
            connection.fill(slot, call.encoded(response))
        except Exception:  # noqa: BLE001 - the others in the purgatory go on
            self._break(call)

    def _filling(
        self, call: Call, slot: ResponseSlot, making: Steps[Any], on_end: Callable[[], None]
    ) -> SlicedSteps:
        """Work, not started, that makes and encodes the response of a request that has waited."""

        def steps() -> Steps[None]:
            try:
                response = yield from making
            except Exception as error:  # noqa: BLE001 - as in `guarded`
                response = self._failed(call, error)
            parts = yield from self._encode_in_steps(call, response)
            call.connection.fill(slot, parts)
            used = [response, call.request]
            response = call.request = None
            yield from dispose_in_steps(used)

        def failed(error: Exception) -> None:
            logger.error("a waiting %s failed", call.loaded.name, exc_info=error)
            call.connection.close()

        return SlicedSteps(self._rounds, steps(), failed, on_end)

    def guarded(self, call: Call, attempt: Callable[[], Any | None]) -> Any | None:
        """Run a step of a waiting request: an exception becomes an error response."""
        try:
            return attempt()
        except Exception as error:  # noqa: BLE001 - the client gets it
            return self._failed(call, error)

    def _failed(self, call: Call, error: Exception) -> Any:
        """The response to a request that has waited, and failed then."""
        if isinstance(error, BrokerError):
            return call.failed(error.code, error.message)
        if isinstance(error, StorageFailed):
            logger.warning("%s is refused: %s", call.loaded.name, error)
            return call.failed(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        if isinstance(error, CoordinationError):
            # No bug of the handler: without a session the controller can do nothing.
            logger.warning("%s has failed: %r", call.loaded.name, error)
            return call.failed(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        self._metrics.request_errors += 1
        logger.error("a waiting %s failed", call.loaded.name, exc_info=error)
        return call.failed(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def replied(ready: Any) -> Steps[Outcome]:
    """A response, or steps that make one, as an outcome."""
    if type(ready) is GeneratorType:
        ready = yield from ready
    return Reply(ready)
