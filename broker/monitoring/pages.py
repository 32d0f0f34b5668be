"""The pages of a broker's HTTP listener, by path."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from odradek.broker.monitoring.exposition import OPEN_METRICS, PROMETHEUS
from odradek.broker.monitoring.health import BrokerState, HealthReport, cluster_health, readiness
from odradek.broker.monitoring.http_listener import UNAVAILABLE, Page, json_page
from odradek.broker.monitoring.scrape import Sources, cluster_problems, scrape
from odradek.runtime.work import Later, pause

_SAMPLE: Final = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_UNESCAPED: Final = {r"\\": "\\", r"\n": "\n", r"\"": '"'}
LINES_PER_STEP: Final = 500


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
        text = b"".join(await scrape(self._sources, is_open_metrics=False)).decode()
        samples: dict[str, list[dict[str, object]]] = {}
        for number, line in enumerate(text.splitlines()):
            if number % LINES_PER_STEP == 0:
                await pause()
            matched = _SAMPLE.fullmatch(line)
            if matched is None:
                continue  # HELP, TYPE
            labels = {
                name: re.sub(r"\\.", lambda escape: _UNESCAPED[escape[0]], value)
                for name, value in _LABEL.findall(matched["labels"] or "")
            }
            row = {"labels": labels, "value": float(matched["value"])}
            samples.setdefault(matched["name"], []).append(row)
        return json_page(samples)

    async def _live(self) -> Page:
        return health_page(HealthReport())

    async def _ready(self) -> Page:
        services = self._sources.services
        controller = services.controller
        return health_page(
            readiness(
                BrokerState(
                    is_registered=controller.broker_epoch >= 0,
                    is_session_suspended=controller.is_suspended,
                    offline_directories=services.logs.offline_directories,
                    is_stopping=self._is_stopping(),
                )
            )
        )

    async def _cluster(self) -> Page:
        image = self._sources.services.controller.image
        return health_page(cluster_health(image, await cluster_problems(image)))


def health_page(health: HealthReport) -> Page:
    """200 or 503, with the reasons."""
    status = 200 if health.is_healthy else UNAVAILABLE
    return json_page(
        {"status": "ok" if health.is_healthy else "failing", "reasons": list(health.reasons)},
        status,
    )
