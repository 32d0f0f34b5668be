"""From a frame to a handler.

Four checks, in this order:
1. the header can be read, else the connection is closed;
2. the API is served, else the connection is closed;
3. the version is served, else the response is UNSUPPORTED_VERSION where the layout of the version
   is known, and the connection is closed where it is not (Kafka: RequestContext).  ApiVersions of
   any version has a response (KIP-511);
4. the body can be read to its end, else the connection is closed.
Differs from Kafka: more than a few bytes after a request close the connection.

A request above `STEPPED_FRAME_BYTES`, or `WHOLE_FRAME_BYTES` if it is decided as a whole, is
decoded in steps and charged to the budget.  A handler that works in steps and does not end within
the first few goes on in slices (`runtime/scheduler`); the next requests of its connection wait
meanwhile, so that it may rely on their order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from odradek.broker.handlers.shared.handler import Close, Context, Outcome, Reply, Staged
from odradek.broker.handlers.shared.table import FIRST_REQUESTS, HANDLERS, WHOLE_ELEMENTS_MAX, Api
from odradek.broker.server.budget import Budget
from odradek.broker.server.call import Call, LoadedApi
from odradek.broker.server.connection import Connection
from odradek.broker.server.metered_call import MeteredCall
from odradek.broker.server.outcomes import Outcomes
from odradek.broker.services import Services
from odradek.controller.coordination.errors import CoordinationError
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.compiler import step_decoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.frames import SMALL_FRAME_BYTES
from odradek.protocol.headers import RequestHeader, decode_request_header
from odradek.runtime.logging import REQUESTS, observe_levels
from odradek.runtime.scheduler import SHORT_SLICE_NS, Scheduler
from odradek.runtime.work import CoroutineObject, Later, Step, in_thread, pause, resumed

if TYPE_CHECKING:
    from odradek.broker.server.request_times import RequestTimes

STEPPED_FRAME_BYTES: Final = 16 * 1024
"""Larger requests are decoded in steps: 16 KiB of names take 5 ms."""
WHOLE_FRAME_BYTES: Final = 1024
"""Larger requests that are decided as a whole are decoded in steps: the 2,000 partitions of 16 KiB
take 6 ms."""
TRAILING_BYTES_MAX: Final = 64
"""Bytes after a request that are passed over, as Kafka passes over any number: librdkafka 2.16
sends three after a Metadata v13 for all topics."""
REQUEST_ELEMENTS_MAX: Final = 200_000
"""Elements of all arrays of one request.  Differs from Kafka, which has no bound: two million names
take it seconds of one of its threads."""
CONTROL_ELEMENTS_MAX: Final = 10_000_000
"""Elements of all arrays of a request between brokers."""
ELEMENT_BYTES: Final = 256
"""What an element takes in memory, with what is built for its response."""
CHARGED_ELEMENTS: Final = 4_096
FREE_UNITS: Final = 16
"""Units of a handler that may run, within a short slice, before it goes on in slices."""

logger = logging.getLogger("odradek.server")
requests_logger = logging.getLogger(REQUESTS)
if requests_logger.level == logging.NOTSET:
    requests_logger.setLevel(logging.WARNING)

Decide = Callable[[Call], Later[Outcome]]
Run = Callable[[Context, object], Outcome | Later[Outcome]]


class Dispatcher:
    """Runs handlers for the connections of one node."""

    def __init__(self, services: Services, scheduler: Scheduler, budget: Budget) -> None:
        """services  what the handlers get"""
        self._services = services
        self._budget = budget
        self._outcomes = Outcomes(services, scheduler, budget)
        has_quorum = services.settings.quorum is not None
        self._apis = {api.key: api for api in HANDLERS if has_quorum or not api.needs_quorum}
        self._loaded: dict[int, LoadedApi] = {}
        self._now_ms = 0
        """Wall time of this turn; 0 until it is read."""
        self._make_call: Callable[[Connection, RequestHeader, LoadedApi, object, int], Call] = Call
        self._has_quotas = False
        self._times: RequestTimes | None = None
        self._is_timed = False
        """Whether they are asked for; a log of requests needs them, too."""
        services.client_quotas.observe(self._on_quotas)
        observe_levels(self)

    def _on_quotas(self, is_enabled: bool) -> None:
        """Count requests from now on, or count them no more."""
        self._has_quotas = is_enabled
        self._choose_call()

    def on_logger_level(self) -> None:
        """Log requests from now on, or no more."""
        self._choose_call()

    def count_times(self, times: RequestTimes) -> None:
        """Count the times of requests from now on."""
        self._is_timed = True
        self._set_times(times)
        self._choose_call()

    def _set_times(self, times: RequestTimes) -> None:
        self._times = times
        for loaded in self._loaded.values():
            loaded.count_times(times)

    def _choose_call(self) -> None:
        if requests_logger.isEnabledFor(logging.INFO):
            # Imported where requests are logged or their times counted: most starts need neither.
            from odradek.broker.server.request_log import LoggedCall, LoggedMeteredCall
            from odradek.broker.server.request_times import RequestTimes

            if self._times is None:
                self._set_times(RequestTimes())
            self._make_call = LoggedMeteredCall if self._has_quotas else LoggedCall
        elif self._is_timed:
            from odradek.broker.server.timed_call import TimedCall, TimedMeteredCall

            self._make_call = TimedMeteredCall if self._has_quotas else TimedCall
        else:
            self._make_call = MeteredCall if self._has_quotas else Call

    def _read_clock(self) -> int:
        """Wall time, read once a turn."""
        self._now_ms = self._services.clock.now_ms()
        return self._now_ms

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        """Handle one request; the connection gets the response now, at the end of the turn, after
        the last slice of the request, or when what it waits for has happened.

        raises  what fails outside handlers: the connection closes itself
        """
        try:
            header, position = decode_request_header(frame, 0)
        except DecodeError as error:
            self._malformed(connection, f"a request header that can't be read: {error}")
            return
        loaded = self._loaded.get(header.api_key) or self._load(header.api_key)
        if loaded is None:
            self._malformed(connection, f"an unknown API key, {header.api_key}")
            return
        version = header.version
        api = loaded.api
        decode = loaded.served.get(version)
        if decode is None:
            if not api.min_version <= version <= api.max_version:
                call = self._make_call(connection, header, loaded, None, 0)
                self._unserved(call, frame, position)
                return
            loaded.prepare(version)
            decode = loaded.served[version]
        size = len(frame)
        if (
            size > WHOLE_FRAME_BYTES
            and (size > SMALL_FRAME_BYTES or not api.is_staged)
            and (api.is_whole or size > STEPPED_FRAME_BYTES)
        ):
            call = self._make_call(connection, header, loaded, None, size)
            self._dispatch_large(call, frame, position)
            return
        try:
            request, end = decode(frame, position)
        except DecodeError as error:
            self._malformed(connection, f"a {loaded.name} v{version} that can't be read: {error}")
            return
        if size - end > TRAILING_BYTES_MAX:
            self._malformed(connection, f"{size - end} bytes after a {loaded.name} v{version}")
            return
        if not api.is_staged and self._outcomes.staged:
            self._settle_staged()
        self._run(self._make_call(connection, header, loaded, request, size), loaded.handler.run)

    def is_served(self, header: RequestHeader) -> bool:
        """Whether the API is served in the version of a request."""
        loaded = self._loaded.get(header.api_key) or self._load(header.api_key)
        return (
            loaded is not None
            and loaded.api.min_version <= header.version <= loaded.api.max_version
        )

    def small_request(
        self, connection: Connection, header: RequestHeader, frame: memoryview, position: int
    ) -> Call | None:
        """Decode a request that no handler decides; None: the connection is closed."""
        if not self.is_served(header):
            self._malformed(connection, f"API {header.api_key} v{header.version} is not served")
            return None
        loaded = self._loaded[header.api_key]
        if header.version not in loaded.decoders:
            loaded.prepare(header.version)
        try:
            request, _ = loaded.decoders[header.version](frame, position)
        except DecodeError as error:
            self._malformed(connection, f"a {loaded.name} that can't be read: {error}")
            return None
        return Call(connection, header, loaded, request)

    def begin(self, connection: Connection, waiting: Later[None]) -> None:
        """Run work of a connection that nothing else of it is read before the end of."""
        self._outcomes.begin(connection, waiting, reads_frame=False)

    def end_of_turn(self) -> None:
        """Write the staged appends and settle their requests."""
        self._settle_staged()
        self._now_ms = 0

    def _settle_staged(self) -> None:
        """Have the responses of staged requests before what comes now."""
        if self._outcomes.staged:
            self._outcomes.write_staged(self._now_ms or self._read_clock())

    def _load(self, api_key: int) -> LoadedApi | None:
        api = self._apis.get(api_key)
        if api is None:
            return None
        loaded = self._loaded[api_key] = self._load_api(api)
        if self._times is not None:
            loaded.count_times(self._times)
        return loaded

    def _load_api(self, api: Api) -> LoadedApi:
        return LoadedApi(api, self._services)

    def prepare_first_requests(self) -> Iterator[None]:
        """Load what `FIRST_REQUESTS` need, before they arrive: a handler or a codec a step.

        cost  70 ms in all, up to 15 ms a step
        """
        for api_key, versions in FIRST_REQUESTS:
            loaded = self._loaded.get(api_key) or self._load(api_key)
            assert loaded is not None, "it is served"
            yield
            for version in versions:
                if version not in loaded.decoders:
                    loaded.prepare(version)
                    yield
                loaded.prepare_large(version)
                yield

    def _malformed(self, connection: Connection, what: str) -> None:
        self._services.metrics.malformed_frames += 1
        logger.warning("closing the connection of %s: %s", connection.client_host, what)
        self._settle_staged()
        connection.close_after_responses()

    def _unserved(self, call: Call, frame: memoryview, position: int) -> None:
        loaded, header = call.loaded, call.header
        version = header.version
        self._settle_staged()
        if header.api_key == ApiKey.API_VERSIONS:
            if 0 not in loaded.encoders:
                loaded.prepare(0)
            call.header = RequestHeader(
                api_key=header.api_key,
                version=0,
                correlation_id=header.correlation_id,
                client_id=header.client_id,
            )
            call.respond(call.failed(ErrorCode.UNSUPPORTED_VERSION, None))
            return
        message = f"{loaded.name} is not served in version {version}"
        if version not in loaded.decoders:
            try:
                loaded.prepare(version)
            except ValueError as error:
                self._malformed(call.connection, f"{message}: {error}")
                return
        is_large = len(frame) > STEPPED_FRAME_BYTES

        async def refuse(call: Call) -> Outcome:
            if not call.wants_response:
                return Close(message)
            failed = partial(call.failed, ErrorCode.UNSUPPORTED_VERSION, message)
            return Reply(await in_thread(failed) if is_large else failed())

        deciding = self._from_frame(call, frame, position, refuse)
        self._outcomes.begin(call.connection, deciding, reads_frame=True)

    def _context(self, call: Call) -> Context:
        header, connection = call.header, call.connection
        return Context(
            self._services,
            header.version,
            header.client_id,
            self._now_ms or self._read_clock(),
            connection.listener_name,
            connection.client_host,
            connection.number,
            connection.principal,
            header.api_key,
        )

    def _run(self, call: Call, run: Run) -> None:
        outcomes = self._outcomes
        header, connection = call.header, call.connection
        # As in `_context`, without its call: every request comes here.
        context = Context(
            self._services,
            header.version,
            header.client_id,
            self._now_ms or self._read_clock(),
            connection.listener_name,
            connection.client_host,
            connection.number,
            connection.principal,
            header.api_key,
        )
        try:
            decided = run(context, call.request)
            if isinstance(decided, CoroutineObject):
                outcome = self._first_units(call, decided)
                if outcome is None:
                    return
            else:
                outcome = decided
        except (BrokerError, CoordinationError) as error:
            self._settle_staged()
            outcomes.refuse(call, error)
            return
        except Exception:  # noqa: BLE001 - one request must not take the node down
            self._settle_staged()
            outcomes.broken(call)
            return
        if isinstance(outcome, Staged):
            outcomes.staged.append((call, outcome))
        else:
            if outcomes.staged:
                self._settle_staged()
            outcomes.settle(call, outcome)

    def _first_units(self, call: Call, deciding: Later[Outcome]) -> Outcome | None:
        """The outcome of a handler that ends soon; None when it goes on in slices."""
        step: Step = 1
        deadline_ns = monotonic_ns() + SHORT_SLICE_NS
        try:
            for _ in range(FREE_UNITS):
                step = deciding.send(None)
                if not isinstance(step, int) or monotonic_ns() >= deadline_ns:
                    break
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome
        outcomes = self._outcomes
        outcomes.begin(
            call.connection,
            outcomes.respond(call, resumed(deciding, step)),
            reads_frame=call.loaded.api.is_staged,
        )
        return None

    def _dispatch_large(self, call: Call, frame: memoryview, position: int) -> None:
        if not call.loaded.api.is_staged:
            self._settle_staged()

        async def run(call: Call) -> Outcome:
            await pause()  # in the rounds if others wait: what is decided as a whole may take long
            outcome = call.loaded.handler.run(self._context(call), call.request)
            return await outcome if isinstance(outcome, CoroutineObject) else outcome

        deciding = self._from_frame(call, frame, position, run)
        self._outcomes.begin(call.connection, deciding, reads_frame=True)

    async def _from_frame(self, call: Call, frame: memoryview, position: int, run: Decide) -> None:
        """Decode, run, respond.

        The decoded request may stay until the response is made, and is charged until then; a large
        produce request is views into memory that is counted elsewhere.
        """
        budget, connection, loaded = self._budget, call.connection, call.loaded
        charged = 0 if loaded.api.is_staged else len(frame)
        budget.charge(connection, charged)
        try:
            decode = step_decoder(loaded.request, call.header.version)
            steps = decode(frame, position, elements_max(loaded.api))
            elements = 0
            try:
                while not connection.is_closed:
                    next(steps)
                    await pause()
                    elements += 1
                    if elements % CHARGED_ELEMENTS == 0:
                        charged += CHARGED_ELEMENTS * ELEMENT_BYTES
                        budget.charge(connection, CHARGED_ELEMENTS * ELEMENT_BYTES)
                return
            except StopIteration as stop:
                call.request, end = stop.value
            except DecodeError as error:
                what = f"a {loaded.name} v{call.header.version} that can't be read: {error}"
                self._malformed(connection, what)
                return
            if len(frame) - end > TRAILING_BYTES_MAX:
                what = f"{len(frame) - end} bytes after a {loaded.name} v{call.header.version}"
                self._malformed(connection, what)
                return
            if not loaded.api.is_staged:
                connection.frames_are_read()  # only records are views into them
            charge, charged = charged, 0
            await self._outcomes.respond(call, run(call), charge)
        finally:
            budget.release(connection, charged)


def elements_max(api: Api) -> int:
    """How many elements all arrays of a request may have together."""
    if api.is_whole:
        return WHOLE_ELEMENTS_MAX
    return CONTROL_ELEMENTS_MAX if api.is_control else REQUEST_ELEMENTS_MAX
