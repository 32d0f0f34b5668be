"""From a frame to a handler.

Checks, in this order: a header that can be read, an API that is served, a version that is served, a
body that can be read to its end.
An unknown API key closes the connection.  An unserved version is answered with UNSUPPORTED_VERSION
where the version's layout is known, otherwise the connection is closed (Kafka: RequestContext);
ApiVersions of any version is answered (KIP-511).  Differs from Kafka: more than a few bytes after a
request close the connection.

A request above `STEPPED_FRAME_BYTES` is decoded in steps and charged to the budget.  A handler that
works in steps and does not end within the first few goes on in slices (`broker/server/rounds`);
the next requests of its connection wait meanwhile, so that it may rely on their order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from types import GeneratorType
from typing import Any, Final

from odradek.broker.handlers.handler import Close, Context, InThread, Outcome, Reply, Staged, Steps
from odradek.broker.handlers.table import HANDLERS
from odradek.broker.server.budget import Budget
from odradek.broker.server.loaded_api import LoadedApi
from odradek.broker.server.outcomes import Outcomes
from odradek.broker.server.rounds import Rounds
from odradek.broker.server.session import Session
from odradek.broker.services import Services
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.compiler import step_decoder
from odradek.protocol.connection import SMALL_FRAME_BYTES
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.headers import RequestHeader, decode_request_header

STEPPED_FRAME_BYTES: Final = 16 * 1024
"""Larger requests are decoded in steps: 16 KiB of names take 5 ms."""
TRAILING_BYTES_MAX: Final = 64
"""Bytes after a request that are passed over, as Kafka passes over any number: librdkafka 2.16
sends three after a Metadata v13 for all topics."""
REQUEST_ELEMENTS_MAX: Final = 200_000
"""Elements of all arrays of one request.  Differs from Kafka, which has no bound: two million names
take it seconds of one of its threads."""
PRODUCED_ELEMENTS_MAX: Final = 20_000
"""The same of a request whose batches are written in one go: topics and partitions."""
ELEMENT_BYTES: Final = 256
"""What an element takes in memory, with what is built for its response."""
CHARGED_ELEMENTS: Final = 4_096
FREE_STEPS: Final = 16
"""Steps of a handler that run before its time is measured."""

logger = logging.getLogger("odradek.server")

Run = Callable[[Any], Steps[Outcome]]


class Dispatcher:
    """Runs handlers for the sessions of one node."""

    def __init__(self, services: Services, rounds: Rounds, budget: Budget) -> None:
        self._services = services
        self._budget = budget
        self._outcomes = Outcomes(services, rounds, budget)
        self._apis = {api.key: api for api in HANDLERS}
        self._loaded: dict[int, LoadedApi] = {}
        self._now_ms = 0
        """Wall time of this turn; 0 until it is asked for."""

    def _read_clock(self) -> int:
        """Wall time, read once a turn."""
        self._now_ms = self._services.clock.now_ms()
        return self._now_ms

    def answered(self) -> dict[str, int]:
        """Requests answered so far, by API."""
        return {loaded.name: loaded.answered for loaded in self._loaded.values()}

    def dispatch(self, session: Session, frame: memoryview) -> None:
        """Handle one request; the response reaches the session now, at the end of the turn, after
        its last slice, or when what it waits for has come.

        raises  what fails outside handlers: the session closes itself
        """
        try:
            header, position = decode_request_header(frame, 0)
        except DecodeError as error:
            self._malformed(session, f"a request header that can't be read: {error}")
            return
        loaded = self._loaded.get(header.api_key) or self._load(header.api_key)
        if loaded is None:
            self._malformed(session, f"an unknown API key, {header.api_key}")
            return
        version = header.version
        api = loaded.api
        if not api.min_version <= version <= api.max_version:
            self._unserved(session, header, loaded, frame, position)
            return
        if version not in loaded.decoders:
            loaded.prepare(version)
        size = len(frame)
        if size > STEPPED_FRAME_BYTES and (size > SMALL_FRAME_BYTES or not api.is_staged):
            self._dispatch_large(session, header, loaded, frame, position)
            return
        try:
            request, end = loaded.decoders[version](frame, position)
        except DecodeError as error:
            self._malformed(session, f"a {loaded.name} v{version} that can't be read: {error}")
            return
        if size - end > TRAILING_BYTES_MAX:
            self._malformed(session, f"{size - end} bytes after a {loaded.name} v{version}")
            return
        if not api.is_staged and self._outcomes.staged:
            self.end_of_turn()
        self._run(session, header, loaded, request)

    def end_of_turn(self) -> None:
        """Write the staged appends and settle their requests."""
        if self._outcomes.staged:
            self._outcomes.write_staged(self._now_ms or self._read_clock())
        self._now_ms = 0

    def _load(self, api_key: int) -> LoadedApi | None:
        api = self._apis.get(api_key)
        if api is None:
            return None
        loaded = self._loaded[api_key] = LoadedApi(api)
        return loaded

    def _malformed(self, session: Session, what: str) -> None:
        self._services.metrics.malformed_frames += 1
        logger.warning("closing the connection of %s: %s", session.client_host, what)
        session.close()

    def _unserved(
        self,
        session: Session,
        header: RequestHeader,
        loaded: LoadedApi,
        frame: memoryview,
        position: int,
    ) -> None:
        version = header.version
        if header.api_key == ApiKey.API_VERSIONS:
            if 0 not in loaded.encoders:
                loaded.prepare(0)
            response = loaded.handler.failed(None, ErrorCode.UNSUPPORTED_VERSION, None)
            first = RequestHeader(
                api_key=header.api_key,
                version=0,
                correlation_id=header.correlation_id,
                client_id=header.client_id,
            )
            self._outcomes.respond(session, first, loaded, response)
            return
        if self._outcomes.staged:
            self.end_of_turn()
        message = f"{loaded.name} is not served in version {version}"
        if version not in loaded.decoders:
            try:
                loaded.prepare(version)
            except ValueError as error:
                self._malformed(session, f"{message}: {error}")
                return
        is_large = len(frame) > STEPPED_FRAME_BYTES

        def refuse(request: Any) -> Steps[Outcome]:
            if not loaded.wants_response(request):
                return Close(message)
            failed = partial(loaded.handler.failed, request, ErrorCode.UNSUPPORTED_VERSION, message)
            return Reply((yield InThread(failed)) if is_large else failed())

        steps = self._from_frame(session, header, loaded, frame, position, refuse)
        self._outcomes.begin(session, steps)

    def _context(self, session: Session, header: RequestHeader) -> Context:
        return Context(
            self._services,
            header.version,
            header.correlation_id,
            header.client_id,
            self._now_ms or self._read_clock(),
            session.listener_name,
            session.client_host,
        )

    def _run(
        self, session: Session, header: RequestHeader, loaded: LoadedApi, request: Any
    ) -> None:
        # As in `_context`, without its call: every request comes here.
        context = Context(
            self._services,
            header.version,
            header.correlation_id,
            header.client_id,
            self._now_ms or self._read_clock(),
            session.listener_name,
            session.client_host,
        )
        try:
            outcome: Any = loaded.handler.run(context, request)
            if type(outcome) is GeneratorType:
                outcome = self._first_steps(session, header, loaded, request, outcome)
                if outcome is None:
                    return
        except BrokerError as error:
            self._outcomes.refuse(session, header, loaded, request, error)
            return
        except Exception:  # noqa: BLE001 - the error wall: one request must not take the node down
            self._outcomes.broken(session, header, loaded, request)
            return
        outcomes = self._outcomes
        if isinstance(outcome, Staged):
            outcomes.staged.append((session, header, loaded, request, outcome))
        else:
            outcomes.settle(session, header, loaded, request, outcome)

    def _first_steps(
        self,
        session: Session,
        header: RequestHeader,
        loaded: LoadedApi,
        request: Any,
        steps: Steps[Outcome],
    ) -> Outcome | None:
        """The outcome of steps that end soon; None when they go on in slices."""
        step = None
        try:
            for _ in range(FREE_STEPS):
                step = next(steps)
                if step is not None:
                    break
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome
        rest = resumed(steps, step)
        self._outcomes.begin(
            session, self._outcomes.in_steps(session, header, loaded, request, rest)
        )
        return None

    def _dispatch_large(
        self,
        session: Session,
        header: RequestHeader,
        loaded: LoadedApi,
        frame: memoryview,
        position: int,
    ) -> None:
        if self._outcomes.staged and not loaded.api.is_staged:
            self.end_of_turn()

        def run(request: Any) -> Steps[Outcome]:
            made = loaded.run_large(self._context(session, header), request)
            outcome: Outcome = (yield from made) if isinstance(made, GeneratorType) else made
            return outcome

        steps = self._from_frame(session, header, loaded, frame, position, run)
        self._outcomes.begin(session, steps)

    def _from_frame(
        self,
        session: Session,
        header: RequestHeader,
        loaded: LoadedApi,
        frame: memoryview,
        position: int,
        run: Run,
    ) -> Steps[None]:
        """Decode, run, respond.

        What is decoded may stay until the response is there, and is charged until then; a large
        produce request is views into memory that is counted elsewhere.
        """
        budget = self._budget
        if len(frame) <= SMALL_FRAME_BYTES:
            # The scratch buffer that it is in belongs to the next connection after this turn.
            frame = memoryview(bytearray(frame))
        charged = 0 if loaded.api.is_staged else len(frame)
        budget.charge(session, charged)
        try:
            elements_max = PRODUCED_ELEMENTS_MAX if loaded.api.is_staged else REQUEST_ELEMENTS_MAX
            steps = step_decoder(loaded.request, header.version)(frame, position, elements_max)
            elements = 0
            try:
                while not session.is_closed:
                    next(steps)
                    yield None
                    elements += 1
                    if elements % CHARGED_ELEMENTS == 0:
                        charged += CHARGED_ELEMENTS * ELEMENT_BYTES
                        budget.charge(session, CHARGED_ELEMENTS * ELEMENT_BYTES)
                return
            except StopIteration as stop:
                request, end = stop.value
            except DecodeError as error:
                what = f"a {loaded.name} v{header.version} that can't be read: {error}"
                self._malformed(session, what)
                return
            if len(frame) - end > TRAILING_BYTES_MAX:
                what = f"{len(frame) - end} bytes after a {loaded.name} v{header.version}"
                self._malformed(session, what)
                return
            charge, charged = charged, 0
            outcomes = self._outcomes
            yield from outcomes.in_steps(session, header, loaded, request, run(request), charge)
        finally:
            budget.release(session, charged)


def resumed(steps: Steps[Outcome], step: InThread | None) -> Steps[Outcome]:
    """The rest of steps whose last one, `step`, is not done yet."""
    while step is not None:
        try:
            try:
                value = yield step
            except Exception as error:  # noqa: BLE001 - theirs to handle
                step = steps.throw(error)
            else:
                step = steps.send(value)
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome
    return (yield from steps)
