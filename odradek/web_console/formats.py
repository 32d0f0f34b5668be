"""How pages write numbers, sizes, times and rates.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from odradek.tools.cluster_status.render import size_text

UNKNOWN: Final = "\u2013"
CHART_WIDTH: Final = 240
CHART_HEIGHT: Final = 44


def number_text(value: float | None) -> str:
    """With narrow blanks between thousands; a fraction only below 10."""
    if value is None:
        return UNKNOWN
    if isinstance(value, float) and 0 < value < 10:
        return f"{value:.1f}"
    return f"{value:,.0f}".replace(",", "\u202f")


def bytes_text(value: float | None) -> str:
    """`1.5 GiB`."""
    return UNKNOWN if value is None else size_text(int(value))


def time_text(timestamp_ms: int | None) -> str:
    """`2026-11-28 10:02:21.123`, in UTC."""
    if timestamp_ms is None or timestamp_ms < 0:
        return UNKNOWN
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03}"


def chart_points(values: Sequence[float]) -> str:
    """The points of an SVG polyline, the newest value at the right."""
    largest = max(values, default=0) or 1
    step = CHART_WIDTH / max(1, len(values) - 1)
    return " ".join(
        f"{index * step:.1f},{CHART_HEIGHT - 2 - value / largest * (CHART_HEIGHT - 6):.1f}"
        for index, value in enumerate(values)
    )


def percent(part: float, whole: float) -> float:
    return round(100 * part / whole, 1) if whole else 0.0


def query_text(values: dict[str, Any]) -> str:
    """A query of the values that are set, with its question mark."""
    text = urlencode({name: value for name, value in values.items() if value not in ("", None)})
    return f"?{text}" if text else ""


def path_part(text: object) -> str:
    """Text as one part of a path."""
    return quote(str(text), safe="")


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "number": number_text,
    "bytes": bytes_text,
    "time": time_text,
    "points": chart_points,
    "percent": percent,
    "query": query_text,
    "part": path_part,
}
