"""The routes of the console: each page as HTML, as JSON below /api, and live below /live."""

from __future__ import annotations

import signal
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import anyio.to_thread
import jinja2
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from odradek.protocol.errors import ErrorCode
from odradek.tools.client import ClientError
from odradek.tools.errors import KafkaError, ToolError
from odradek.web_console.access import Guard, Users
from odradek.web_console.arguments import PageArgumentError, PageArguments
from odradek.web_console.change_pages import ChangePages, ChangeRefused
from odradek.web_console.cluster import ShownCluster
from odradek.web_console.formats import FILTERS
from odradek.web_console.live import Streams, content_events
from odradek.web_console.record_pages import RecordSearches
from odradek.web_console.records.decoding import Schemas
from odradek.web_console.records.query import parse_query
from odradek.web_console.sampling import ClusterSampler
from odradek.web_console.views.access import access_view
from odradek.web_console.views.brokers import (
    broker_view,
    brokers_view,
    clusters_view,
    overview_view,
)
from odradek.web_console.views.groups import group_view, groups_view
from odradek.web_console.views.metadata import find_topic, read_metadata
from odradek.web_console.views.topics import (
    topic_change_view,
    topic_configs_view,
    topic_view,
    topics_view,
)

FOLDER: Final = Path(__file__).parent
NOT_THERE: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.BROKER_ID_NOT_REGISTERED,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.OFFSET_OUT_OF_RANGE,
)

View = Callable[[ShownCluster, PageArguments], dict[str, Any]]
"""Makes what a page shows, in a thread; raises ToolError."""


PAGES: Final[Sequence[tuple[str, str, View]]] = (
    ("/brokers", "brokers.html", brokers_view),
    ("/brokers/{broker}", "broker.html", broker_view),
    ("/topics", "topics.html", topics_view),
    ("/topics/{topic}", "topic.html", topic_view),
    ("/topics/{topic}/configs", "topic_configs.html", topic_configs_view),
    ("/topics/{topic}/change", "topic_change.html", topic_change_view),
    ("/groups", "groups.html", groups_view),
    ("/access", "access.html", access_view),
    ("/group", "group.html", group_view),
)
"""The pages of a cluster: path after the name of the cluster, template and view."""

RouteHandler = Callable[[Request], Awaitable[Response]]


class Console:
    """The clusters of a console, and its pages."""

    def __init__(
        self,
        clusters: Sequence[ShownCluster],
        registries: Mapping[str, Schemas],
        *,
        allows_changes: bool,
    ) -> None:
        """registries  by name of the cluster, of those that have one"""
        self._clusters = {cluster.name: cluster for cluster in clusters}
        self._samplers = {cluster.name: ClusterSampler(cluster) for cluster in clusters}
        self._allows_changes = allows_changes
        self._changes = ChangePages(allows_changes=allows_changes)
        self._streams = Streams()
        self._registries = registries
        self._searches = RecordSearches(registries, self._streams)
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(FILTERS)

    def routes(self) -> list[Route | Mount]:
        """All routes of the console."""
        static = StaticFiles(directory=FOLDER / "static")
        routes: list[Route | Mount] = [
            Route("/", self._home),
            Mount("/static", static),
            *self._three("/clusters", "clusters.html", self._clusters_content),
            *self._three("/clusters/{cluster}", "overview.html", self._overview_content),
        ]
        cluster = "/clusters/{cluster}"
        for path, template, view in PAGES:
            routes += self._three(cluster + path, template, partial(self._content, view))
        records = f"{cluster}/topics/{{topic}}/records"
        return [
            *routes,
            Route(records, self._records),
            Route(f"/api{records}", with_json_errors(self._records_json)),
            Route(f"/stream{records}", with_json_errors(self._records_stream)),
            Route(f"{cluster}/changes/{{kind}}", self._preview, methods=["POST"]),
            Route(f"{cluster}/confirm", self._confirm, methods=["POST"]),
            *self._three(f"{records}/{{partition}}/{{offset}}", "record.html", self._record),
            Route(f"{records}/{{partition}}/{{offset}}/raw", with_json_errors(self._raw)),
        ]

    def end_streams(self) -> None:
        """Let live pages end, so that the server can."""
        self._streams.close()

    async def close(self) -> None:
        """Stop sampling and close connections."""
        for sampler in self._samplers.values():
            await sampler.stop()
        for cluster in self._clusters.values():
            cluster.close()

    def _three(
        self, path: str, template: str, content: Callable[[Request], Awaitable[dict[str, Any]]]
    ) -> list[Route | Mount]:
        """A page as HTML, as JSON, and live."""

        async def html(request: Request) -> Response:
            return self._page(request, template, await content(request))

        async def as_json(request: Request) -> Response:
            return JSONResponse(await content(request))

        async def live(request: Request) -> Response:
            async def render() -> str:
                return self._render(request, template, await content(request), is_fragment=True)

            return self._streams.respond(content_events(request, self._streams, render))

        return [
            Route(path, html),
            Route(f"/api{path}", with_json_errors(as_json)),
            Route(f"/live{path}", live),
        ]

    async def trouble_page(self, request: Request, error: Exception) -> Response:
        """The page in place of the one that a ToolError has prevented, also of a change."""
        template, status = "trouble.html", status_of(error)
        if request.method == "POST":
            template, status = "refused.html", 503 if isinstance(error, ClientError) else 400
        if isinstance(error, ChangeRefused):
            status = 403
        return self._page(request, template, {"trouble": str(error)}, status)

    async def _records(self, request: Request) -> Response:
        cluster, arguments = self._cluster(request), arguments_of(request)
        parse_query(arguments)
        metadata = await anyio.to_thread.run_sync(read_metadata, cluster)
        topic = find_topic(metadata, arguments.required("topic"))
        return self._page(request, "records.html", {"partitions": len(topic.partitions)})

    async def _records_json(self, request: Request) -> Response:
        query = parse_query(arguments_of(request))
        return await self._searches.as_json(self._cluster(request), query)

    async def _records_stream(self, request: Request) -> Response:
        query = parse_query(arguments_of(request))
        cluster = self._cluster(request)
        formats = {"key_format": query.key_format, "value_format": query.value_format}

        def render(request: Request, rows: list[dict[str, Any]]) -> str:
            values = {"rows": rows, "topic": query.topic, "formats": formats}
            return self._render(request, "record_rows.html", values)

        return self._streams.respond(self._searches.events(request, cluster, query, render))

    async def _record(self, request: Request) -> dict[str, Any]:
        return await self._searches.one_content(self._cluster(request), arguments_of(request))

    async def _preview(self, request: Request) -> Response:
        values = await self._changes.preview(request, self._cluster(request))
        return self._page(request, "change_preview.html", values)

    async def _confirm(self, request: Request) -> Response:
        values = await self._changes.confirm(request, self._cluster(request))
        return self._page(request, "change_done.html", values)

    async def _raw(self, request: Request) -> Response:
        return await self._searches.raw(self._cluster(request), arguments_of(request))

    def _page(
        self, request: Request, template: str, values: Mapping[str, Any], status: int = 200
    ) -> Response:
        return HTMLResponse(self._render(request, template, values), status)

    def _render(
        self,
        request: Request,
        template: str,
        values: Mapping[str, Any],
        *,
        is_fragment: bool = False,
    ) -> str:
        path = request.url.path.removeprefix("/live")
        name = request.path_params.get("cluster")
        user = request.scope["user"]
        return self._templates.get_template(template).render(
            values,
            layout="fragment.html" if is_fragment else "base.html",
            path=path,
            search=request.url.query,
            arguments=defaultdict(str, {**request.query_params, **request.path_params}),
            cluster=name if name in self._clusters else None,
            clusters=list(self._clusters),
            allows_changes=self._allows_changes,
            has_registry=name in self._registries,
            user=user,
            csrf=self._changes.csrf_token(user) if self._allows_changes else "",
        )

    async def _home(self, _: Request) -> Response:
        names = list(self._clusters)
        return RedirectResponse("/clusters" if len(names) > 1 else f"/clusters/{names[0]}")

    def _cluster(self, request: Request) -> ShownCluster:
        name = request.path_params["cluster"]
        if name not in self._clusters:
            raise NoSuchCluster(f"there is no cluster '{name}'")
        return self._clusters[name]

    async def _content(self, view: View, request: Request) -> dict[str, Any]:
        cluster = self._cluster(request)
        return await anyio.to_thread.run_sync(view, cluster, arguments_of(request))

    async def _clusters_content(self, _: Request) -> dict[str, Any]:
        return await anyio.to_thread.run_sync(clusters_view, list(self._clusters.values()))

    async def _overview_content(self, request: Request) -> dict[str, Any]:
        cluster = self._cluster(request)
        sampler = self._samplers[cluster.name]
        sampler.watch()
        content = await anyio.to_thread.run_sync(overview_view, cluster)
        return {**content, **sampler.content()}


class NoSuchCluster(ToolError):
    """The path names a cluster that the console does not have."""


def arguments_of(request: Request) -> PageArguments:
    """The arguments in the query and in the path, which overrides."""
    return PageArguments({**request.query_params, **request.path_params})


def with_json_errors(handler: RouteHandler) -> RouteHandler:
    """A route whose errors are JSON, and not a page."""

    async def response(request: Request) -> Response:
        try:
            return await handler(request)
        except ToolError as error:
            return JSONResponse({"error": str(error)}, status_of(error))

    return response


def status_of(error: Exception) -> int:
    """The status code of a response in place of a page."""
    if isinstance(error, PageArgumentError):
        return 400
    if isinstance(error, NoSuchCluster) or (
        isinstance(error, KafkaError) and error.code in NOT_THERE
    ):
        return 404
    return 503


def new_application(console: Console, hosts: Collection[str], users: Users | None) -> Starlette:
    """The application of a console.

    hosts  names under which it may be asked, besides addresses and localhost
    users  None: everybody
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await console.close()

    return Starlette(
        routes=console.routes(),
        middleware=[Middleware(Guard, hosts=hosts, users=users)],
        exception_handlers={ToolError: console.trouble_page},
        lifespan=lifespan,
    )


class ConsoleServer(uvicorn.Server):
    """Ends with exit code 0 after a signal, and at once after a second SIGINT; live pages end
    first."""

    def __init__(self, config: uvicorn.Config, console: Console) -> None:
        super().__init__(config)
        self._console = console

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # The library sends itself the signal again when all is closed.
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._console.end_streams()
        await super().shutdown(sockets)
