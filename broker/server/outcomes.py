"""From a handler's outcome to the connection's response.

An unexpected exception, in a handler, in encoding or at the end of a turn, is responded to with
UNKNOWN_SERVER_ERROR or closes the connection of its request, and no other.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from odradek.broker.handlers.shared.handler import Close, NoReply, Outcome, Reply, Staged
from odradek.broker.purgatory import Delayed, ParkedRequest
from odradek.broker.server.budget import Budget
from odradek.broker.server.call import Call, framed
from odradek.broker.server.connection import Connection
from odradek.broker.server.transmit import Parts
from odradek.broker.services import Services
from odradek.controller.coordination.errors import CoordinationError, StorageFailed
from odradek.protocol.compiler import step_encoder
from odradek.protocol.disposal import dispose_in_steps
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.gathered import Gathered
from odradek.protocol.response_queue import ResponseSlot
from odradek.runtime.pending import Pending
from odradek.runtime.scheduler import Scheduler
from odradek.runtime.work import CoroutineObject, Later, Work, in_thread, in_units, pause

logger = logging.getLogger("odradek.server")


class ResponseTooLarge(Exception):
    """A response would take more memory than one may."""


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
        "over",
        "parked",
        "ready",
        "slot",
        "timeout_ms",
        "watch",
    )

    def __init__(
        self,
        outcomes: Outcomes,
        call: Call,
        delayed: Delayed,
        charge: int,
        over: Pending[None] | None,
    ) -> None:
        """over  resolved with the response, unless it is there at once"""
        self._outcomes = outcomes
        self._call = call
        self._delayed = delayed
        self._charge = charge
        self.watch = delayed.watch
        self.timeout_ms = delayed.timeout_ms
        self.is_tried = delayed.is_tried
        self.over = over
        self.parked: ParkedRequest | None = None
        self.ready: object | None = None
        """The response that was there at once."""
        self.slot: ResponseSlot | None = None

    @property
    def api_key(self) -> int:
        """What waits."""
        return self._call.header.api_key

    def attempt(self) -> object | None:
        """The response, or None: not yet."""
        return self._outcomes.guarded(self._call, self._delayed.attempt)

    def expire(self) -> object:
        """The response when the time is up."""
        return self._outcomes.guarded(self._call, self._delayed.expire)

    def respond(self, response: object) -> None:
        """Called once, with the response."""
        slot = self.slot
        if slot is None:
            self.ready = response
            return
        self.parked = None  # as a cycle they would keep the request
        self._call.connection.waiting.pop(self, None)
        try:
            self._outcomes.finish(self._call, slot, response, self._charge)
        finally:
            if self.over is not None:
                self.over.resolve(None)

    def cancel(self) -> None:
        """Wait no more, without a response."""
        parked, self.parked = self.parked, None
        if parked is not None:
            parked.cancel()


class Outcomes:
    """Responds for the handlers of one node."""

    def __init__(self, services: Services, scheduler: Scheduler, budget: Budget) -> None:
        self._appends = services.appends
        self._clock = services.clock
        self._metrics = services.metrics
        self._purgatory = services.purgatory
        self._scheduler = scheduler
        self._budget = budget
        self.staged: list[tuple[Call, Staged]] = []
        """Produce requests whose batches are written at the end of the turn."""

    # Requests that go on after their turn.

    def begin(self, connection: Connection, waiting: Later[None], *, reads_frame: bool) -> None:
        """Run the first slice; the connection's next requests wait for the last.

        Here, and nowhere else, a request outlives its turn before its response is known: it keeps
        the memory that it reads, and what it has staged is written, since it may be cancelled.

        reads_frame  it is not decoded yet, or has views into its frame, as records are
        """
        try:
            if reads_frame:
                connection.own_frames()
            self.write_staged(self._clock.now_ms())
        except BaseException:
            waiting.close()
            raise

        def on_end(done: Pending[None] | None) -> None:
            try:
                if done is not None:
                    done.result()
            except Exception as error:
                self._metrics.request_errors += 1
                logger.error("a request of %s failed", connection.client_host, exc_info=error)
                connection.close()
            finally:
                connection.on_work_done()

        work = Work(self._scheduler, connection.counted(waiting), on_end)
        connection.under_way = work
        work.start()

    async def respond(self, call: Call, deciding: Awaitable[Outcome], charge: int = 0) -> None:
        """Await what a handler decides, and respond.

        charge  bytes of the budget that the request holds; released when the response is made
        """
        try:
            try:
                outcome = await deciding
                if isinstance(outcome, Delayed):
                    over = Pending[None]() if call.loaded.api.is_followed else None
                    ready = self._park(call, outcome, charge, over)
                    if ready is None:
                        charge = 0
                        if over is not None:
                            await over
                        return
                    outcome = Reply(await ready if isinstance(ready, CoroutineObject) else ready)
            except (BrokerError, CoordinationError) as error:
                if not call.wants_response:
                    self.refuse(call, error)
                    return
                if charge or call.loaded.api.is_staged:
                    # One element for each that a large request names.
                    outcome = Reply(await in_thread(partial(self._failed, call, error)))
                else:
                    outcome = Reply(self._failed(call, error))
            except Exception:  # noqa: BLE001 - one request must not take the node down
                self.broken(call)
                return
            if isinstance(outcome, Reply):
                parts = await self._encode(call, outcome.response)
                call.connection.respond(parts)
                call.connection.flush()  # the client need not wait for the disposal
                used = [outcome.response, call.request]
                outcome.response = call.request = None
                if charge:
                    self._budget.release(call.connection, charge)
                    charge = 0
                await in_units(dispose_in_steps(used))
            elif isinstance(outcome, Staged):
                self.staged.append((call, outcome))
            else:
                self.settle(call, outcome)
        finally:
            if charge:
                self._budget.release(call.connection, charge)

    async def _encode(self, call: Call, response: object) -> Parts:
        """The frame of a response; of an error when it would be too large."""
        call.on_response(response)
        bytes_max = self._budget.response_bytes_max
        encode = step_encoder(call.loaded.response, call.header.version)
        gathered = Gathered()
        try:
            for _ in encode(response, gathered):
                if gathered.held_bytes > bytes_max:
                    raise ResponseTooLarge
                await pause()
        except ResponseTooLarge:
            call.loaded.release(response)
            message = f"the response would take more than {bytes_max} bytes"
            logger.warning("%s v%d: %s", call.loaded.name, call.header.version, message)
            refusal = await in_thread(partial(call.failed, ErrorCode.INVALID_REQUEST, message))
            gathered = Gathered()
            await in_units(encode(refusal, gathered))
        except BaseException:
            call.loaded.release(response)
            raise
        return framed(call.header, call.loaded, gathered.finish(), gathered.size_bytes)

    # Outcomes.

    def refuse(self, call: Call, error: Exception) -> None:
        """Respond with an error; Produce with acks=0 has its connection closed instead."""
        if call.wants_response:
            call.respond(self._failed(call, error))
        else:
            call.connection.close_after_responses()

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
        finally:
            connection.close_after_responses()

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
        """Call `broken`, and log what it raises: the other requests of the caller must go on."""
        try:
            self.broken(call)
        except Exception:  # the connection is closed
            logger.exception("%s could not be refused", call.loaded.name)

    def settle(self, call: Call, outcome: Outcome) -> None:
        """Respond as the outcome says, now or later."""
        if type(outcome) is bytes:
            call.respond_encoded(outcome)
        elif isinstance(outcome, Reply):
            try:
                call.respond(outcome.response)
            except Exception:  # noqa: BLE001 - what cannot be encoded is an error of its request
                self.broken(call)
        elif isinstance(outcome, Delayed):
            if call.loaded.api.is_followed:
                deciding = self.respond(call, decided(outcome))
                self.begin(call.connection, deciding, reads_frame=False)
                return
            ready = self._park(call, outcome)
            if isinstance(ready, CoroutineObject):
                self.begin(call.connection, self.respond(call, reply_of(ready)), reads_frame=False)
            elif ready is not None:
                self.settle(call, Reply(ready))
        elif isinstance(outcome, Close):
            logger.info(
                "closing the connection of %s: %s", call.connection.client_host, outcome.reason
            )
            call.connection.close_after_responses()
        else:
            assert isinstance(outcome, NoReply), "a staged outcome is settled at the turn's end"
            call.on_no_response()

    # Requests that wait.

    def _park(
        self, call: Call, delayed: Delayed, charge: int = 0, over: Pending[None] | None = None
    ) -> object | None:
        """Reserve a place for the response, which the purgatory fills; the charge is released then.

        Returns None, or what is there at once: the response, or a coroutine that makes it.
        """
        connection = call.connection
        waiting = WaitingRequest(self, call, delayed, charge, over)
        parked = self._purgatory.park(
            waiting, self._clock.monotonic_ms(), waiting.respond, connection.close
        )
        if parked is None:
            return waiting.ready
        waiting.parked = parked
        waiting.slot = connection.reserve()
        connection.waiting[waiting] = None
        call.on_parked()
        return None

    def finish(self, call: Call, slot: ResponseSlot, response: object, charge: int) -> None:
        """Send the response of a request that has waited in the purgatory."""
        connection = call.connection
        if isinstance(response, CoroutineObject):
            if connection.is_closed:
                response.close()
                self._budget.release(connection, charge)
            else:
                self._fill_later(call, slot, response, charge)
            return
        self._budget.release(connection, charge)
        if connection.is_closed:
            call.loaded.release(response)
            return
        try:
            connection.fill(slot, call.encoded(response))
        except Exception:  # noqa: BLE001 - the others in the purgatory go on
            self._break(call)

    def _fill_later(
        self, call: Call, slot: ResponseSlot, making: Later[object], charge: int
    ) -> None:
        """Make and encode the response of a request that has waited, in slices."""

        async def fill() -> None:
            try:
                response = await making
            except Exception as error:  # noqa: BLE001 - the client gets it
                response = self._failed(call, error)
            parts = await self._encode(call, response)
            call.connection.fill(slot, parts)
            used = [response, call.request]
            response = call.request = None
            await in_units(dispose_in_steps(used))

        def on_end(done: Pending[None] | None) -> None:
            try:
                if done is not None:
                    done.result()
            except Exception as error:
                logger.error("a waiting %s failed", call.loaded.name, exc_info=error)
                call.connection.close()
            finally:
                self._budget.release(call.connection, charge)

        Work(self._scheduler, fill(), on_end).start()

    def guarded(self, call: Call, attempt: Callable[[], object | None]) -> object | None:
        """Run a step of a waiting request: an exception becomes an error response."""
        try:
            return attempt()
        except Exception as error:  # noqa: BLE001 - the client gets it
            return self._failed(call, error)

    def _failed(self, call: Call, error: Exception) -> object:
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


async def decided(outcome: Outcome) -> Outcome:
    """What a handler has decided in its first units."""
    return outcome


async def reply_of(making: Awaitable[object]) -> Outcome:
    """A response that is made in slices, as an outcome."""
    return Reply(await making)
