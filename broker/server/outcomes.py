"""From a handler's outcome to the connection's response.

What fails unexpectedly, in a handler, in encoding or at the end of a turn, is answered with
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
from odradek.broker.purgatory import Delayed
from odradek.broker.server.budget import Budget
from odradek.broker.server.loaded_api import LoadedApi, encode_response, framed
from odradek.broker.server.rounds import Rounds, SlicedSteps
from odradek.broker.server.session import Session
from odradek.broker.services import Services
from odradek.controller.coordination.errors import StorageFailed
from odradek.protocol.compiler import step_encoder
from odradek.protocol.connection import Slot
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.gathered import Gathered
from odradek.protocol.headers import RequestHeader
from odradek.runtime.pending import Pending

logger = logging.getLogger("odradek.server")


class ResponseTooLarge(Exception):
    """A response would take more memory than one may."""


class AwaitedResponse:
    """A request whose response is made when a result is done.

    It is made in the next round, not within the call that completes the result: what it costs, and
    what fails in it, does not reach the one that completes the result.
    """

    __slots__ = ("work",)

    def __init__(self) -> None:
        self.work: SlicedSteps | None = None

    def on_done(self, pending: Pending[Any]) -> None:
        """The result is there."""
        if self.work is not None:
            self.work.start_later()

    def cancel(self) -> None:
        """Give back the request; the result still refers to this object, which is empty then."""
        if self.work is not None:
            self.work.cancel()


class Outcomes:
    """Responds for the handlers of one node."""

    def __init__(self, services: Services, rounds: Rounds, budget: Budget) -> None:
        self._services = services
        self._rounds = rounds
        self._budget = budget
        self.staged: list[tuple[Session, RequestHeader, LoadedApi, Any, Staged]] = []
        """Produce requests whose batches are written at the end of the turn."""

    # Requests in slices.

    def begin(self, session: Session, steps: Steps[None]) -> None:
        """Let the session's next requests wait for these steps, and run the first slice."""

        def failed(error: Exception) -> None:
            self._services.metrics.request_errors += 1
            logger.error("a request of %s failed", session.client_host, exc_info=error)
            session.close()

        work = SlicedSteps(self._rounds, steps, failed, session.on_work_done)
        session.under_way = work
        work.start()

    def in_steps(
        self,
        session: Session,
        header: RequestHeader,
        loaded: LoadedApi,
        request: Any,
        steps: Steps[Outcome],
        charge: int = 0,
    ) -> Steps[None]:
        """Run a handler's steps and respond; release the charge when the response is there."""
        try:
            try:
                outcome = yield from steps
                if isinstance(outcome, Delayed | WhenDone):
                    ready = self._wait(session, header, loaded, request, outcome, charge)
                    if ready is None:
                        charge = 0
                        return
                    outcome = yield from replied(ready)
            except BrokerError as error:
                if not loaded.wants_response(request):
                    self.refuse(session, header, loaded, request, error)
                    return
                failed = loaded.handler.failed
                outcome = Reply(
                    (yield InThread(partial(failed, request, error.code, error.message)))
                )
            except Exception:  # noqa: BLE001 - the error wall
                self.broken(session, header, loaded, request)
                return
            if isinstance(outcome, Reply):
                parts = yield from self._encode_in_steps(header, loaded, request, outcome.response)
                loaded.answered += 1
                session.answer(parts)
            elif isinstance(outcome, Staged):
                self.staged.append((session, header, loaded, request, outcome))
            else:
                self.settle(session, header, loaded, request, outcome)
        finally:
            self._budget.release(session, charge)

    def _encode_in_steps(
        self, header: RequestHeader, loaded: LoadedApi, request: Any, response: Any
    ) -> Steps[list[Any]]:
        """The frame of a response; of an error when it would be too large."""
        bytes_max = self._budget.response_bytes_max
        gathered = Gathered()
        try:
            for _ in step_encoder(loaded.response, header.version)(response, gathered):
                if gathered.held_bytes > bytes_max:
                    raise ResponseTooLarge
                yield None
        except ResponseTooLarge:
            loaded.release(response)
            message = f"the response would take more than {bytes_max} bytes"
            logger.warning("%s v%d: %s", loaded.name, header.version, message)
            failed = loaded.handler.failed
            refusal = yield InThread(partial(failed, request, ErrorCode.INVALID_REQUEST, message))
            gathered = Gathered()
            yield from step_encoder(loaded.response, header.version)(refusal, gathered)
        except BaseException:
            loaded.release(response)
            raise
        return framed(header, loaded, gathered.finish(), gathered.size_bytes)

    # Outcomes.

    def refuse(
        self,
        session: Session,
        header: RequestHeader,
        loaded: LoadedApi,
        request: Any,
        error: BrokerError,
    ) -> None:
        """Respond with an error; Produce with acks=0 learns of it by a closed connection."""
        if loaded.wants_response(request):
            response = loaded.handler.failed(request, error.code, error.message)
            self.respond(session, header, loaded, response)
        else:
            session.close()

    def broken(
        self, session: Session, header: RequestHeader, loaded: LoadedApi, request: Any
    ) -> None:
        """Log the exception that is being handled; respond if that can be done, and close."""
        self._services.metrics.request_errors += 1
        logger.exception(
            "%s v%d, correlation id %d, from %s failed",
            loaded.name,
            header.version,
            header.correlation_id,
            session.client_host,
        )
        try:
            if not session.is_closed and loaded.wants_response(request):
                response = loaded.handler.failed(request, ErrorCode.UNKNOWN_SERVER_ERROR, None)
                session.answer(encode_response(header, loaded, response))
                session.flush()
        finally:
            session.close()

    def write_staged(self, now_ms: int) -> None:
        """Write the staged appends, one call per partition, and settle their requests.

        What fails in one request closes its connection, and the others go on.
        """
        staged, self.staged = self.staged, []
        try:
            self._services.appends.write(now_ms)
        except Exception:
            # A request whose batches have no result fails by that below.
            logger.exception("the appends of a turn failed")
        for session, header, loaded, request, outcome in staged:
            if session.is_closed:
                continue
            try:
                self.settle(session, header, loaded, request, outcome.finish())
            except Exception:  # noqa: BLE001 - its neighbours in the turn go on
                self._break(session, header, loaded, request)

    def _break(
        self, session: Session, header: RequestHeader, loaded: LoadedApi, request: Any
    ) -> None:
        """As `broken`, for callers whose other requests must go on."""
        try:
            self.broken(session, header, loaded, request)
        except Exception:  # the connection is closed
            logger.exception("%s could not be refused", loaded.name)

    def settle(
        self,
        session: Session,
        header: RequestHeader,
        loaded: LoadedApi,
        request: Any,
        outcome: Outcome,
    ) -> None:
        """Respond as the outcome says, now or later."""
        if isinstance(outcome, Encoded):
            head = loaded.heads[header.version]
            body = outcome.body
            loaded.answered += 1
            session.answer([head.pack(head.size - 4 + len(body), header.correlation_id) + body])
        elif isinstance(outcome, Reply):
            try:
                self.respond(session, header, loaded, outcome.response)
            except Exception:  # noqa: BLE001 - what cannot be encoded is an error of its request
                self.broken(session, header, loaded, request)
        elif isinstance(outcome, Delayed | WhenDone):
            ready = self._wait(session, header, loaded, request, outcome)
            if type(ready) is GeneratorType:
                steps = replied(ready)
                self.begin(session, self.in_steps(session, header, loaded, request, steps))
            elif ready is not None:
                self.settle(session, header, loaded, request, Reply(ready))
        elif isinstance(outcome, Close):
            logger.info("closing the connection of %s: %s", session.client_host, outcome.reason)
            session.close()
        else:
            assert isinstance(outcome, NoReply), "a staged outcome is settled at the turn's end"

    def respond(
        self, session: Session, header: RequestHeader, loaded: LoadedApi, response: Any
    ) -> None:
        """Encode and hand over a response; raises what encoding raises."""
        parts = self._encoded(header, loaded, response)
        loaded.answered += 1
        session.answer(parts)

    def _encoded(self, header: RequestHeader, loaded: LoadedApi, response: Any) -> list[Any]:
        try:
            return encode_response(header, loaded, response)
        except BaseException:
            loaded.release(response)
            raise

    def _wait(
        self,
        session: Session,
        header: RequestHeader,
        loaded: LoadedApi,
        request: Any,
        outcome: Delayed | WhenDone[Any],
        charge: int = 0,
    ) -> Any | None:
        """Wait, and release the charge at the end; or return what is there at once: the response,
        or steps that make it."""
        if isinstance(outcome, Delayed):
            return self._park(session, header, loaded, request, outcome, charge)
        pending, respond = outcome.pending, outcome.respond

        def make() -> Any:
            return self._guarded(loaded, request, lambda: respond(pending.result()))

        if pending.is_done:
            return make()

        def steps() -> Steps[Any]:
            response = make()
            if type(response) is GeneratorType:
                response = yield from response
            return response

        metrics = self._services.metrics
        awaited = AwaitedResponse()
        slot = session.reserve()

        def on_end() -> None:
            awaited.work = None  # as a cycle they would keep the request
            session.waiting.pop(awaited, None)
            metrics.delayed_requests -= 1
            self._budget.release(session, charge)

        awaited.work = self._filling(session, header, loaded, request, slot, steps(), on_end)
        session.waiting[awaited] = None
        metrics.delayed_requests += 1
        pending.on_done(awaited.on_done)
        return None

    def _park(
        self,
        session: Session,
        header: RequestHeader,
        loaded: LoadedApi,
        request: Any,
        delayed: Delayed,
        charge: int = 0,
    ) -> Any | None:
        """Wait, and release the charge at the end; or return what is there at once: the response,
        or steps that make it."""
        ready: Any | None = None
        slot: Slot | None = None
        waiting = session.waiting

        def respond(response: Any) -> None:
            nonlocal ready
            if slot is None:
                ready = response
                return
            self._budget.release(session, charge)
            if operation is not None:
                waiting.pop(operation, None)
            if session.is_closed:
                if type(response) is not GeneratorType:
                    loaded.release(response)
                return
            if type(response) is GeneratorType:
                self._filling(
                    session, header, loaded, request, slot, response, lambda: None
                ).start()
                return
            try:
                session.fill(slot, self._encoded(header, loaded, response))
            except Exception:  # noqa: BLE001 - neighbours in the purgatory go on
                self._break(session, header, loaded, request)

        operation = None
        services = self._services
        guarded = Delayed(
            delayed.watch,
            delayed.timeout_ms,
            lambda: self._guarded(loaded, request, delayed.attempt),
            lambda: self._guarded(loaded, request, delayed.expire),
        )
        operation = services.purgatory.park(
            guarded, services.clock.monotonic_ms(), respond, session.close
        )
        if operation is None:
            return ready
        slot = session.reserve()
        waiting[operation] = None
        return None

    def _filling(
        self,
        session: Session,
        header: RequestHeader,
        loaded: LoadedApi,
        request: Any,
        slot: Slot,
        making: Steps[Any],
        on_end: Callable[[], None],
    ) -> SlicedSteps:
        """Work, not started, that makes and encodes the response of a request that has waited."""

        def steps() -> Steps[None]:
            try:
                response = yield from making
            except Exception as error:  # noqa: BLE001 - as in `_guarded`
                response = self._failed(loaded, request, error)
            parts = yield from self._encode_in_steps(header, loaded, request, response)
            session.fill(slot, parts)

        def failed(error: Exception) -> None:
            logger.error("a waiting %s failed", loaded.name, exc_info=error)
            session.close()

        return SlicedSteps(self._rounds, steps(), failed, on_end)

    def _guarded(
        self, loaded: LoadedApi, request: Any, ask: Callable[[], Any | None]
    ) -> Any | None:
        """The error wall of waiting requests: what fails is answered, its neighbours wait on."""
        try:
            return ask()
        except Exception as error:  # noqa: BLE001 - answered
            return self._failed(loaded, request, error)

    def _failed(self, loaded: LoadedApi, request: Any, error: Exception) -> Any:
        """The response to a request that has waited, and failed then."""
        if isinstance(error, BrokerError):
            return loaded.handler.failed(request, error.code, error.message)
        if isinstance(error, StorageFailed):
            logger.warning("%s is refused: %s", loaded.name, error)
            return loaded.handler.failed(request, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        self._services.metrics.request_errors += 1
        logger.error("a waiting %s failed", loaded.name, exc_info=error)
        return loaded.handler.failed(request, ErrorCode.UNKNOWN_SERVER_ERROR, None)


def replied(ready: Any) -> Steps[Outcome]:
    """A response, or steps that make one, as an outcome."""
    if type(ready) is GeneratorType:
        ready = yield from ready
    return Reply(ready)
