"""How long requests take and how many fail, by API: counters that a request adds to.

A duration counts in a bucket that is at most an eighth wide, so a quantile is within 7 % of what
was measured.  Memory grows with the APIs and versions that are served, not with clients: some 2 KB
for each that is used.  Source: Kafka's RequestMetrics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from odradek.broker.handlers.shared.table import Api
from odradek.protocol.api_keys import ApiKey, messages_of
from odradek.protocol.generated import compile_function
from odradek.protocol.schema import ArrayOf, schema_of

UNIT_SHIFT: Final = 10
"""Durations are counted in units of 1,024 ns."""
UNITS_IN_TABLE: Final = 4_096
BUCKET_COUNT: Final = 240
"""The last one begins at 65 minutes."""
ERROR_FIELD: Final = "error_code"
UNSERVED: Final = -1
"""In place of a version that is not served."""

CODES_MAX: Final = 5_000
"""Error codes of one response that are counted: to read them takes 0.3 ms."""

CountCodes = Callable[[object, defaultdict[int, int]], int]
"""(response, count by code): counts its error codes other than NONE; returns how many are NONE."""
ReadCodes = Callable[[object], Iterator[int]]
"""(response) -> its error codes."""


def _bucket(units: int) -> int:
    shift = units.bit_length() - 4
    if shift <= 0:
        return units
    return (shift << 3) + (units >> shift)


BUCKETS: Final = bytes(map(_bucket, range(UNITS_IN_TABLE)))
"""Bucket by value, for the values that most requests have."""


def large_bucket(units: int) -> int:
    """The bucket of a value that is not in `BUCKETS`."""
    return min(_bucket(units), BUCKET_COUNT - 1)


def bucket_middle(bucket: int) -> float:
    """The value that stands for all of a bucket."""
    if bucket < 16:
        return float(bucket)
    shift = (bucket >> 3) - 1
    return float(((8 + (bucket & 7)) << shift) + (1 << shift) / 2)


class Histogram:
    """Values by bucket."""

    __slots__ = ("buckets",)

    def __init__(self) -> None:
        self.buckets = [0] * BUCKET_COUNT

    def record(self, value: int) -> None:
        """Count a value, which is not negative."""
        self.buckets[BUCKETS[value] if value < UNITS_IN_TABLE else large_bucket(value)] += 1

    def record_ns(self, duration_ns: int) -> None:
        """Count a duration."""
        self.record(duration_ns >> UNIT_SHIFT)


class VersionTimes:
    """The requests of one API in one version.

    All of the time of a request that does not wait in the purgatory is local, and it is counted in
    `at_once` alone.
    """

    __slots__ = ("api", "at_once", "size_bytes", "waited")

    def __init__(self, api: ApiTimes) -> None:
        self.api = api
        self.at_once = [0] * BUCKET_COUNT
        """How long requests took that did not wait, by bucket."""
        self.waited = 0
        """Requests that did."""
        self.size_bytes = 0
        """Bytes of all frames."""

    def requests(self) -> int:
        """How many there were."""
        return self.waited + sum(self.at_once)


class ApiTimes(dict[int, VersionTimes]):
    """The requests of one API by version; versions that are not served are one.

    followers  the Fetch requests of followers; None: the API makes no difference
    """

    def __init__(
        self, name: str, versions: range, response: type, followers: ApiTimes | None = None
    ) -> None:
        super().__init__()
        self.name = name
        """Kafka's spelling: FetchConsumer."""
        self._versions = versions
        self.count_codes = code_counter(response)
        self._read_codes = code_reader(response)
        self.followers = followers
        self.waited = Histogram()
        """The whole time of requests that have waited in the purgatory."""
        self.local = Histogram()
        """What the broker did for those, before they waited."""
        self.remote = Histogram()
        """How long they waited."""
        self.queued = Histogram()
        """Between receipt and handling, of requests that were held back."""
        self.leaving = Histogram()
        """How long responses waited for those to earlier requests; several that leave at once are
        one."""
        self.sending = Histogram()
        """How long a socket was full, by the API of the last response before that."""
        self.throttled = Histogram()
        """Throttle times that are not 0."""
        self.errors: defaultdict[int, int] = defaultdict(int)
        """Error codes of the responses that were looked at, other than NONE."""
        self.more_none = 0
        """NONE in those, less one for each: 0 in sum for APIs with one code in a response, which
        most responses need not add to.  A response that was not looked at has one."""

    def __missing__(self, version: int) -> VersionTimes:
        if version not in self._versions:
            version = UNSERVED
            if version in self:
                return self[version]
        times = self[version] = VersionTimes(self)
        return times

    def check_large(self, response: object) -> None:
        """Count error codes of a response that is encoded in slices, the first `CODES_MAX`."""
        self.more_none -= 1
        for code in islice(self._read_codes(response), CODES_MAX):
            if code:
                self.errors[int(code)] += 1
            else:
                self.more_none += 1

    def requests(self) -> int:
        """How many there were."""
        return sum(times.requests() for times in tuple(self.values()))

    def failures(self) -> int:
        """Error codes other than NONE in their responses."""
        return sum(self.errors.values())


class RequestTimes:
    """The APIs that have had a request."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: dict[int, ApiTimes] = {}

    def of(self, api: Api) -> ApiTimes:
        """The counters of an API."""
        times = self._by_key.get(api.key)
        if times is None:
            times = self._by_key[api.key] = _api_times(api)
        return times

    def totals(self, api_key: int) -> tuple[int, int]:
        """Requests of an API, and error codes in its responses."""
        times = self._by_key.get(api_key)
        if times is None:
            return 0, 0
        both = [times] if times.followers is None else [times, times.followers]
        return sum(each.requests() for each in both), sum(each.failures() for each in both)

    def all(self) -> Iterator[ApiTimes]:
        """Each API; Fetch twice, for consumers and followers."""
        for times in tuple(self._by_key.values()):
            yield times
            if times.followers is not None:
                yield times.followers


def _api_times(api: Api) -> ApiTimes:
    versions = range(api.min_version, api.max_version + 1)
    response = messages_of(api.key)[1]
    name = "".join(map(str.capitalize, ApiKey(api.key).name.split("_")))
    if api.key != ApiKey.FETCH:
        return ApiTimes(name, versions, response)
    followers = ApiTimes(f"{name}Follower", versions, response)
    return ApiTimes(f"{name}Consumer", versions, response, followers)


def code_counter(response: type) -> CountCodes:
    """What counts the error codes of a message, and of the elements of its arrays."""
    leaf = ("code = {carrier}.error_code", "if code: counts[int(code)] += 1", "else: zeros += 1")
    lines = _walk(response, "message", 1, leaf)
    head = ("def count(message, counts):", "    zeros = 0")
    source = "\n".join([*head, *lines, "    return zeros"])
    counter: CountCodes = compile_function("count", source, {})
    return counter


def code_reader(response: type) -> ReadCodes:
    """What reads those error codes one by one."""
    lines = _walk(response, "message", 1, ("yield {carrier}.error_code",))
    source = "\n".join(["def read(message):", *lines, "    yield from ()"])
    reader: ReadCodes = compile_function("read", source, {})
    return reader


def _walk(message: type, name: str, depth: int, leaf: Sequence[str]) -> list[str]:
    """Loops to each structure with an error code, and there the lines of `leaf`."""
    indent = "    " * depth
    lines = []
    for field in schema_of(message).fields:
        if field.name == ERROR_FIELD:
            lines += [indent + line.format(carrier=name) for line in leaf]
        elif isinstance(field.type, ArrayOf) and isinstance(field.type.element, type):
            element = f"element{depth}"
            nested = _walk(field.type.element, element, depth + 1, leaf)
            if nested:
                lines += [f"{indent}for {element} in {name}.{field.name} or ():", *nested]
    return lines
