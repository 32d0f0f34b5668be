"""The HTTP listener of metrics and health, where a setting asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from odradek.broker.node.platform import Platform
from odradek.broker.node.start_error import StartError
from odradek.broker.server.bound_listener import BoundListener, bind, cannot_listen
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.listeners import parse_address

if TYPE_CHECKING:
    from odradek.broker.monitoring.http_listener import HttpListener
    from odradek.broker.node.parts import NodeParts

METRICS_LISTENER: Final = "odradek.metrics.listener"


def bind_monitoring(settings: BrokerSettings) -> Monitoring | None:
    """Bind the address that the setting names; None without it.

    raises  StartError when the address is in use; InvalidValueError
    """
    text = settings.written.get(METRICS_LISTENER, "").strip()
    if not text:
        return None
    host, port = parse_address(METRICS_LISTENER, text)
    try:
        return Monitoring(bind("metrics", host, port))
    except OSError as error:
        raise StartError(cannot_listen(f"{METRICS_LISTENER} {text}", port, error)) from error


class Monitoring:
    """A bound listener, which responds once the broker serves."""

    def __init__(self, bound: BoundListener) -> None:
        self.bound = bound
        self._http: HttpListener | None = None

    async def listen(
        self, platform: Platform, parts: NodeParts, is_stopping: Callable[[], bool]
    ) -> None:
        """Begin to respond."""
        # Imported where a broker has the listener: it takes 20 ms, most of it for HTTP.
        from odradek.broker.monitoring.http_listener import HttpListener
        from odradek.broker.monitoring.lag_times import LagTimes
        from odradek.broker.monitoring.node_metrics import NodeMetrics, NodeSources
        from odradek.broker.monitoring.pages import Pages
        from odradek.broker.monitoring.request_metrics import RequestMetrics
        from odradek.broker.monitoring.scrape import Sources
        from odradek.broker.server.request_times import RequestTimes

        services, server = parts.services, parts.server
        times = RequestTimes()
        server.dispatcher.count_times(times)
        sources = Sources(
            services,
            RequestMetrics(times),
            NodeMetrics(
                NodeSources(server, parts.jobs, parts.replica_fetchers),
                services.metrics,
                services.controller,
            ),
            LagTimes(),
            held_bytes=lambda: server.budget.held_bytes,
        )
        pages = Pages(sources, is_stopping)
        self._http = HttpListener(
            platform.loop, platform.scheduler, platform.loop_watch, pages.make
        )
        await self._http.listen(self.bound.socket)

    def close(self) -> None:
        """Close the listener and its connections."""
        if self._http is not None:
            self._http.close()
        self.bound.socket.close()
