"""Applies the rules of a test to requests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from odradek.broker.handlers.shared.handler import (
    Close,
    Context,
    Delayed,
    Finished,
    NoReply,
    Outcome,
    Reply,
    Staged,
)
from odradek.broker.server.budget import Budget
from odradek.broker.server.call import Call
from odradek.broker.server.connection import Connection
from odradek.broker.server.dispatch import Decide, Run
from odradek.broker.services import Services
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.compiler import decoder
from odradek.protocol.errors import ErrorCode
from odradek.runtime.pending import Pending
from odradek.runtime.scheduler import Scheduler
from odradek.runtime.wheel_driver import WheelDriver
from odradek.runtime.work import CoroutineObject, Later
from odradek.testing.node.client_requests import ClientRequests
from odradek.testing.node.faults.connection import Ending, FaultyConnection
from odradek.testing.node.faults.naming import NameOf, NameReader, fits, kinds_of
from odradek.testing.node.faults.placement import (
    THROTTLE_FIELD,
    clear_top,
    divide,
    error_field,
    has_throttle_time,
    merge,
    place,
    with_records,
)
from odradek.testing.node.faults.rules import FaultAction, Rule, Rules, is_of_follower
from odradek.testing.node.observing_dispatcher import ObservingDispatcher
from odradek.testing.node.releases import ServedRelease

Alter = Callable[[Any], Any]
CRC_BYTE: Final = 17
"""Position in a batch: the first byte of its checksum."""
WITHOUT_SESSION: Final = -1
"""The session epoch of a full fetch that begins no session."""


def altered(outcome: Outcome, alter: Alter, call: Call) -> Outcome:
    """The outcome with `alter(response)` as its response, whenever that is made."""
    if isinstance(outcome, Staged):
        return AlteredStaged(outcome, alter, call)
    return _settled(outcome, alter, call)


def _settled(outcome: Finished, alter: Alter, call: Call) -> Finished:
    match outcome:
        case bytes():
            decode = decoder(call.loaded.response, call.header.version)
            return Reply(alter(decode(memoryview(outcome), 0)[0]))
        case Reply():
            return Reply(alter(outcome.response))
        case Delayed():
            return Delayed(
                outcome.watch,
                outcome.timeout_ms,
                lambda: _when_made(outcome.attempt(), alter),
                lambda: _when_made(outcome.expire(), alter),
                outcome.is_tried,
            )
    return outcome


def _when_made(made: object, alter: Alter) -> object:
    """A response, a coroutine that makes one, or None: not yet."""
    if isinstance(made, CoroutineObject):
        return _at_end(made, alter)
    return None if made is None else alter(made)


async def _at_end(making: Later[object], alter: Alter) -> object:
    return alter(await making)


class AlteredStaged(Staged):
    """Staged records whose response is altered."""

    __slots__ = ("_alter", "_call", "_staged")

    def __init__(self, staged: Staged, alter: Alter, call: Call) -> None:
        self._staged = staged
        self._alter = alter
        self._call = call

    def finish(self) -> Finished:
        """The outcome of the staged records, with its response altered."""
        outcome = self._staged.finish()
        if isinstance(outcome, NoReply):
            connection: Any = self._call.connection
            connection.end_without_response(self._call.header.correlation_id)
            return outcome
        return _settled(outcome, self._alter, self._call)


class FaultyDispatcher(ObservingDispatcher):
    """A dispatcher whose handlers are reached through the rules."""

    def __init__(
        self,
        services: Services,
        scheduler: Scheduler,
        budget: Budget,
        *,
        requests: ClientRequests,
        release: ServedRelease | None,
        rules: Rules,
        wheel: WheelDriver,
    ) -> None:
        super().__init__(services, scheduler, budget, requests=requests, release=release)
        self._rules = rules
        self._wheel = wheel
        self._name_of: NameOf = services.topics.name_of

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        """Dispatch, unless the connection waits for a response that will not come."""
        assert isinstance(connection, FaultyConnection), "the server makes no others"
        if not connection.is_stalled:
            super().dispatch(connection, frame)

    def _run(self, call: Call, run: Run) -> None:
        if not len(self._rules):
            super()._run(call, run)
            return
        faulty = self._faulty(call)
        if faulty is None:
            super()._run(call, run)
            return
        if self._outcomes.staged:
            self.end_of_turn()
        super()._run(call, lambda context, request: faulty(context, run))

    async def _from_frame(self, call: Call, frame: memoryview, position: int, run: Decide) -> None:
        async def run_faulty(call: Call) -> Outcome:
            faulty = self._faulty(call) if len(self._rules) else None
            if faulty is None:
                return await run(call)

            def decided(context: Context, request: Any) -> Later[Outcome]:
                call.request = request
                return run(call)

            return await faulty(self._context(call), decided)

        await super()._from_frame(call, frame, position, run_faulty)

    def _faulty(self, call: Call) -> Callable[[Context, Run], Later[Outcome]] | None:
        """How a request is handled of which a rule decides."""
        header = call.header
        api = ApiKey(header.api_key)
        request: Any = call.request
        if hasattr(request, "session_epoch") and not is_of_follower(request):
            if request.session_epoch > 0 and self._rules.ends_sessions(api):
                return partial(_without_session, call)
            if request.session_epoch == 0 and self._rules.ends_sessions(api):
                request.session_epoch = WITHOUT_SESSION
        rule = self._rules.find(api, header.version, header.client_id, request, self._name_of)
        if rule is None:
            return None
        return FaultyCall(call, rule, self._wheel, self._name_of).run


async def _without_session(call: Call, context: Context, run: Run) -> Outcome:
    """Its client begins again, with a request that names its topics.

    As if another client had taken the place of its session; the response of a full fetch then has
    none, as if there were no place.
    """
    response: Any = call.failed(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, None)
    response.responses = []
    return Reply(response)


class FaultyCall:
    """A request to which a rule applies."""

    def __init__(self, call: Call, rule: Rule, wheel: WheelDriver, name_of: NameOf) -> None:
        assert isinstance(call.connection, FaultyConnection), "the server makes no others"
        self._call = call
        self._connection = call.connection
        self._rule = rule
        self._wheel = wheel
        self._reader = NameReader(call.request, call.header.version, name_of)

    async def run(self, context: Context, run: Run) -> Outcome:
        """What is done in place of the handler's part."""
        call, rule, connection = self._call, self._rule, self._connection
        if rule.delay_ms:
            await self._after_delay()
            if connection.is_closed:
                return NoReply()
        response: Any = None
        request: Any = call.request
        match rule.action:
            case FaultAction.DROP if not rule.executed:
                connection.stall(rule.number)
                return NoReply()
            case FaultAction.CLOSE if not rule.executed:
                return Close(f"fault {rule.number}")
            case FaultAction.ERROR if not call.wants_response and not rule.executed:
                return Close(
                    f"fault {rule.number}: {rule.error.name}, for a request without response"
                )
            case FaultAction.ERROR if not rule.executed:
                response, request = self._refused()
                if request is None:
                    return Reply(response)
            case (
                FaultAction.DROP
                | FaultAction.CLOSE
                | FaultAction.HALF_WRITTEN
                | FaultAction.THROTTLE
            ):
                ending = Ending(rule.action, rule.number, rule.throttle_ms)
                connection.end_with(call.header.correlation_id, ending)
        outcome = run(context, request)
        if isinstance(outcome, CoroutineObject):
            outcome = await outcome
        if isinstance(outcome, NoReply):
            connection.end_without_response(call.header.correlation_id)
            return outcome
        return altered(outcome, partial(self._alter, refused=response), call)

    def _after_delay(self) -> Pending[None]:
        done: Pending[None] = Pending()
        self._wheel.after(self._rule.delay_ms, lambda: done.resolve(None))
        return done

    def _refused(self) -> tuple[Any, Any | None]:
        """(the response to what the rule names, or None; the request that is left, or None)."""
        call, rule, reader = self._call, self._rule, self._reader
        request: Any = call.request
        named, rest = divide(request, rule.names, reader)
        if named is None:
            return None, request  # the response shows where
        message = f"fault {rule.number} of a test"
        response: Any = call.loaded.handler.failed(named, rule.error, message)
        if not _has_error(response, rule.error, reader):
            return None, request
        if rule.names.keys() & kinds_of(response.__class__, reader.version):
            clear_top(response, reader.version)
        if rest is not None and hasattr(rest, "max_wait_ms"):
            rest.max_wait_ms = 0  # a fetch with an error is not delayed
        return response, rest

    def _alter(self, response: Any, *, refused: Any) -> Any:
        """The response that is sent in place of the handler's."""
        rule, reader = self._rule, self._reader
        match rule.action:
            case FaultAction.ERROR:
                place(response, rule.names, rule.error, reader)
                if refused is not None:
                    merge(response, refused, reader)
            case FaultAction.CORRUPT:
                self._corrupt(response)
            case FaultAction.THROTTLE if has_throttle_time(response.__class__, reader.version):
                setattr(response, THROTTLE_FIELD, rule.throttle_ms)
        return response

    def _corrupt(self, response: Any) -> None:
        rule = self._rule
        batches = [
            (node, field)
            for node, field, node_names in with_records(response, self._reader)
            if fits(rule.names, node_names) and getattr(node, field)
        ]
        if not batches or not rule.take():
            return
        for node, field in batches:
            records = getattr(node, field)
            content = bytearray(_content(records))
            content[CRC_BYTE] ^= 0xFF
            setattr(node, field, bytes(content))


def _has_error(response: Any, code: int, reader: NameReader) -> bool:
    """Whether any part of a response has the error."""

    def has_error(node: Any, array: str) -> bool:
        field = error_field(node.__class__, reader.version)
        if field is not None and getattr(node, field) == code:
            return True
        arrays = reader.level(node, array).arrays
        return any(
            has_error(child, name) for name, _ in arrays for child in getattr(node, name) or ()
        )

    return has_error(response, "")


def _content(records: Any) -> bytes:
    """The bytes of batches, which may be a slice of a file."""
    read = getattr(records, "read", None)
    if read is None:
        return bytes(records)
    content: bytes = read()
    records.release()
    return content
