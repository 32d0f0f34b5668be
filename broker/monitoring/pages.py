"""The pages of a broker's HTTP listener, by path."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from odradek.broker.monitoring.exposition import OPEN_METRICS, PROMETHEUS, ROWS_PER_STEP
from odradek.broker.monitoring.health import cluster_health, readiness
from odradek.broker.monitoring.http_listener import JSON, UNAVAILABLE, Page, json_page
from odradek.broker.monitoring.scrape import Sources, cluster_problems, scrape
from odradek.runtime.work import Later, pause

_SAMPLE: Final = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_UNESCAPED: Final = {r"\\": "\\", r"\n": "\n", r"\"": '"'}
LINES_PER_STEP: Final = 100


class Pages:
    """Makes the response to each path.

    is_stopping  whether the broker has begun to stop
    """

    def __init__(self, sources: Sources, is_stopping: Callable[[], bool]) -> None:
        self._sources = sources
        self._is_stopping = is_stopping

    def make(self, path: str, accept: str) -> Later[Page] | None:
        """The page of a path, or None."""
        match path:
            case "/metrics":
                return self._metrics("application/openmetrics-text" in accept)
            case "/metrics.json":
                return self._metrics_as_json()
            case "/health/live":
                return self._live()
            case "/health/ready":
                return self._ready()
            case "/health/cluster":
                return self._cluster()
        return None

    async def _metrics(self, is_open_metrics: bool) -> Page:
        content = await scrape(self._sources, is_open_metrics=is_open_metrics)
        return Page(tuple(content), OPEN_METRICS if is_open_metrics else PROMETHEUS)

    async def _metrics_as_json(self) -> Page:
        content = await scrape(self._sources, is_open_metrics=False)
        return Page(tuple(await as_json(content)), JSON)

    async def _live(self) -> Page:
        return health_page(())

    async def _ready(self) -> Page:
        services = self._sources.services
        controller = services.controller
        return health_page(
            readiness(
                is_registered=controller.broker_epoch >= 0,
                is_session_suspended=controller.is_suspended,
                offline_directories=services.logs.offline_directories,
                is_stopping=self._is_stopping(),
            )
        )

    async def _cluster(self) -> Page:
        image = self._sources.services.controller.image
        return health_page(cluster_health(image, await cluster_problems(image)))


async def as_json(parts: Iterable[bytes]) -> list[bytes]:
    """The samples of Prometheus's text as one JSON object, in parts: name -> labels and value.

    parts  end with a line each
    cost   some 10 us a sample, in slices
    """
    rows: dict[str, list[bytes]] = {}
    for part in parts:
        for number, line in enumerate(part.decode().split("\n")):
            if number % LINES_PER_STEP == 0:
                await pause()
            matched = _SAMPLE.fullmatch(line)
            if matched is None:
                continue  # HELP, TYPE
            labels = {
                name: re.sub(r"\\.", lambda escape: _UNESCAPED[escape[0]], value)
                for name, value in _LABEL.findall(matched["labels"] or "")
            }
            sample = {"labels": labels, "value": float(matched["value"])}
            rows.setdefault(matched["name"], []).append(_encoded(sample))
    content = [b"{"]
    for name, samples in rows.items():
        separator = b"" if len(content) == 1 else b","
        content.append(b"%b%b:[" % (separator, _encoded(name)))
        for start in range(0, len(samples), ROWS_PER_STEP):
            together = b",".join(samples[start : start + ROWS_PER_STEP])
            content.append(b"," + together if start else together)
            await pause()
        content.append(b"]")
    return [*content, b"}\n"]


def _encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def health_page(reasons: Sequence[str]) -> Page:
    """200 without reasons, or 503 with them."""
    status = UNAVAILABLE if reasons else 200
    return json_page({"status": "failing" if reasons else "ok", "reasons": list(reasons)}, status)
