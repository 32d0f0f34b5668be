"""Requests while their times are counted: where the listener of metrics is on.

A request begins when its frame has been read, and ends when its response is handed to the
connection.  Other requests than those of the purgatory have no remote time: what a handler awaits
elsewhere is local.
Cost: 0.2 to 0.3 us a request with a flat response, half a microsecond with one whose error codes
are read.
"""

from __future__ import annotations

from time import monotonic_ns

from odradek.broker.server.call import Call, LoadedApi, encode_response
from odradek.broker.server.connection import Connection
from odradek.broker.server.metered_call import MeteredCall, is_of_follower
from odradek.broker.server.request_times import (
    BUCKETS,
    UNIT_SHIFT,
    UNITS_IN_TABLE,
    ApiTimes,
    VersionTimes,
    large_bucket,
)
from odradek.broker.server.transmit import Parts
from odradek.protocol.headers import RequestHeader


class Timed(Call):
    """What counts a request, whether or not it is metered."""

    __slots__ = ()

    began_ns: int
    parked_ns: int

    def on_response(self, response: object) -> None:
        """The response is encoded in slices."""
        super().on_response(response)
        api = self._api()
        api.check_large(response)
        self._time(api[self.header.version])

    def on_no_response(self) -> None:
        """A Produce with acks=0 has ended."""
        super().on_no_response()
        self._time(self.loaded.times[self.header.version])

    def _api(self) -> ApiTimes:
        api = self.loaded.times
        followers = api.followers
        return api if followers is None or not is_of_follower(self.request) else followers

    def _time(self, times: VersionTimes) -> None:
        now_ns = monotonic_ns()
        times.size_bytes += self.size
        self.connection.times = times.api
        if self.parked_ns:
            api = times.api
            times.waited += 1
            api.waited.record_ns(now_ns - self.began_ns)
            api.local.record_ns(self.parked_ns - self.began_ns)
            api.remote.record_ns(now_ns - self.parked_ns)
            return
        units = (now_ns - self.began_ns) >> UNIT_SHIFT
        times.at_once[BUCKETS[units] if units < UNITS_IN_TABLE else large_bucket(units)] += 1


class TimedCall(Timed):
    """A request that is timed."""

    __slots__ = ("began_ns", "parked_ns")

    def __init__(
        self,
        connection: Connection,
        header: RequestHeader,
        loaded: LoadedApi,
        request: object,
        size: int = 0,
    ) -> None:
        # As in `Call`, without its call.
        self.connection = connection
        self.header = header
        self.loaded = loaded
        self.request = request
        self.size = size
        self.parked_ns = 0
        if connection.held_since_ns:
            loaded.times.queued.record_ns(monotonic_ns() - connection.held_since_ns)
        self.began_ns = monotonic_ns()

    def on_parked(self) -> None:
        """The request waits from now on."""
        self.parked_ns = monotonic_ns()

    def encoded(self, response: object) -> Parts:
        """The parts of the response's frame; the request is over."""
        # As in `Call` and `_time`, without their calls.
        header, loaded = self.header, self.loaded
        parts = encode_response(header, loaded, response)
        api = loaded.times
        if api.followers is not None and is_of_follower(self.request):
            api = api.followers
        without_error = api.count_codes(response, api.errors)
        if without_error != 1:
            api.more_none += without_error - 1
        times = api[header.version]
        if self.parked_ns:
            self._time(times)
            return parts
        self.connection.times = api
        times.size_bytes += self.size
        units = (monotonic_ns() - self.began_ns) >> UNIT_SHIFT
        times.at_once[BUCKETS[units] if units < UNITS_IN_TABLE else large_bucket(units)] += 1
        return parts

    def respond_encoded(self, body: bytes) -> None:
        """Send an encoded body, that of most Produce responses: it carries no error."""
        # As in `Call` and `_time`, without their calls.
        header, loaded = self.header, self.loaded
        version = header.version
        head = loaded.heads[version]
        self.connection.respond(
            [head.pack(head.size - 4 + len(body), header.correlation_id) + body]
        )
        times = loaded.times[version]
        times.size_bytes += self.size
        units = (monotonic_ns() - self.began_ns) >> UNIT_SHIFT
        times.at_once[BUCKETS[units] if units < UNITS_IN_TABLE else large_bucket(units)] += 1


class TimedMeteredCall(Timed, MeteredCall):
    """A request that is timed and counted for quotas."""

    __slots__ = ("began_ns", "parked_ns")

    def __init__(
        self,
        connection: Connection,
        header: RequestHeader,
        loaded: LoadedApi,
        request: object,
        size: int = 0,
    ) -> None:
        super().__init__(connection, header, loaded, request, size)
        self.parked_ns = 0
        if connection.held_since_ns:
            loaded.times.queued.record_ns(monotonic_ns() - connection.held_since_ns)
        self.began_ns = monotonic_ns()

    def respond_encoded(self, body: bytes) -> None:
        """Send an encoded body."""
        super().respond_encoded(body)
        self._time(self.loaded.times[self.header.version])

    def on_parked(self) -> None:
        """The request waits from now on."""
        self.parked_ns = monotonic_ns()

    def _count(self, decided_ms: int) -> int:
        throttle_ms = super()._count(decided_ms)
        if throttle_ms:
            self.loaded.times.throttled.record_ns(throttle_ms * 1_000_000)
        return throttle_ms
