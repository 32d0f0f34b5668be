"""The times of `--to-datetime` and `--by-duration`, parsed as Java does.

    2024-01-01T03:00:00.000          UTC; milliseconds are required, and `.1` is 1 ms
    2024-01-01T03:00:00.000+02:00    or `+02`, `Z`; text after the zone is ignored
    P1DT2H3M4.5S                     each part is optional; each part and the whole may have a sign

Leading zeros are optional, and blanks before a number are ignored.  Years are 1583 to 9999.
Source: java.text.SimpleDateFormat (not lenient) as Kafka's Utils.getDateTime uses it;
java.time.Duration.parse.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from odradek.tools.errors import ToolError

DAY_S: Final = 86_400
ZONE_FIRST: Final = -13 * 60
ZONE_LAST: Final = 14 * 60
"""Bounds of an offset from UTC in minutes, as in Java's calendar."""
INSTANT_FIRST_S: Final = -31_557_014_167_219_200
INSTANT_LAST_S: Final = 31_556_889_864_403_199
"""Bounds of a java.time.Instant in seconds since 1970."""
INT64_MAX: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER: Final = r"[ \t]*(\d+)"
_DATETIME: Final = re.compile(
    rf"{_NUMBER}-{_NUMBER}-{_NUMBER}T{_NUMBER}:{_NUMBER}:{_NUMBER}\.[ \t]*(\d+)"
    r"[ \t]*(?:Z|([+-])(\d\d)(?::(\d\d))?)",
    re.ASCII | re.DOTALL,
)
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?"
    r"(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_NO_T: Final = "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"


def parse_datetime(text: str) -> int:
    """The time in milliseconds since 1970.

    raises  ToolError
    """
    parts = text.rstrip("T").split("T")
    if len(parts) < 2:
        raise ToolError(f"{_NO_T}")
    if not re.search("[-+Z]", parts[1]):
        text += "Z"
    wrong = ToolError(f'Unparseable date: "{text}"')
    match = _DATETIME.match(text)
    if match is None:
        raise wrong
    year, month, day, hour, minute, second, millisecond = map(int, match.groups()[:7])
    zone = 60 * int(match[9] or 0)
    minutes = int(match[10] or 0)
    if minutes < 60 and zone + minutes <= (ZONE_LAST if match[8] == "+" else -ZONE_FIRST):
        zone += minutes
    # When the minutes are invalid, Java parses again and takes the hours only.
    zone = -zone if match[8] == "-" else zone
    if not ZONE_FIRST <= zone <= ZONE_LAST:
        raise wrong
    try:
        time = datetime(year, month, day, hour, minute, second, millisecond * 1000, tzinfo=UTC)
    except (ValueError, OverflowError):
        raise wrong from None
    return (time - _EPOCH) // timedelta(milliseconds=1) - zone * 60_000


def before(now_ns: int, text: str) -> int:
    """The time one ISO 8601 duration before `now_ns`, in milliseconds since 1970.

    raises  ToolError
    """
    then_s, then_ns = divmod(now_ns - parse_duration(text), 10**9)
    if not INSTANT_FIRST_S <= then_s <= INSTANT_LAST_S:
        raise ToolError("Instant exceeds minimum or maximum instant")
    then_ms = then_s * 1000 + then_ns // 10**6
    if abs(then_ms) > INT64_MAX:
        raise ToolError("long overflow")
    return then_ms


def parse_duration(text: str) -> int:
    """The duration in nanoseconds.

    raises  ToolError
    """
    match = _DURATION.fullmatch(text)
    if match is None or match[3] in ("T", "t") or not any(match.group(2, 4, 5, 6)):
        raise ToolError("Text cannot be parsed to a Duration")
    sign, days, _, hours, minutes, seconds, fraction = match.groups()
    total = 0
    for number, unit_s, name in (
        (days, DAY_S, "days"),
        (hours, 3600, "hours"),
        (minutes, 60, "minutes"),
        (seconds, 1, "seconds"),
    ):
        part = int(number or 0) * unit_s
        if not -INT64_MAX - 1 <= part <= INT64_MAX:
            raise ToolError(f"Text cannot be parsed to a Duration: {name}")
        total += part
    if not -INT64_MAX - 1 <= total <= INT64_MAX:
        raise ToolError("Text cannot be parsed to a Duration: overflow")
    nanoseconds = int((fraction or "").ljust(9, "0"))
    if seconds is not None and seconds.startswith("-"):
        nanoseconds = -nanoseconds
    whole = total * 10**9 + nanoseconds
    return -whole if sign == "-" else whole
