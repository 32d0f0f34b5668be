"""The metrics of a broker as a whole: its threads, connections, waiting requests, coordination.

Labels that Kafka has for its threads (`networkProcessor`) are 0: there is one event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from time import monotonic_ns, thread_time_ns
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from odradek.broker.monitoring.exposition import Exposition, counter, gauge, label_text, summary
from odradek.controller.controller import Controller
from odradek.protocol.api_keys import ApiKey
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.work import pause

if TYPE_CHECKING:
    from odradek.broker.replication.follower.replica_fetchers import ReplicaFetchers
    from odradek.broker.server.socket_server import SocketServer

IDLE_LEAST_NS: Final = 1_000_000_000
"""The share of shorter times says little: the one before is reported again."""
CONNECTIONS_PER_STEP: Final = 500
PURGATORIES: Final = {
    ApiKey.PRODUCE: "Produce",
    ApiKey.FETCH: "Fetch",
    ApiKey.JOIN_GROUP: "Rebalance",
    ApiKey.SYNC_GROUP: "Rebalance",
    ApiKey.DELETE_RECORDS: "DeleteRecords",
    ApiKey.ELECT_LEADERS: "ElectLeader",
}
"""Kafka's delayed operations; others are counted as `topic`."""
LISTENER_COUNTERS: Final = (
    ("connection_creation", "connections_opened", "Connections that were opened."),
    ("connection_close", "connections_closed", "Connections that were closed."),
    ("connection_refused", "connections_refused", "Connections over a limit."),
    ("successful_authentication", "successful_authentications", "Clients that logged in."),
    ("failed_authentication", "failed_authentications", "Clients that failed to log in."),
    (
        "successful_reauthentication",
        "successful_reauthentications",
        "Clients that logged in again.",
    ),
    ("failed_reauthentication", "failed_reauthentications", "Clients that failed to, then."),
)
"""(name, attribute of ListenerMetrics, text)"""
SOCKET_SERVERS: Final = ("kafka_server_socketservermetrics", "kafka_server_socket_server_metrics")
"""Two usual sets of rules name Kafka's socket-server-metrics differently."""


class FlushCounts(Protocol):
    """How often logs were flushed, and how long that took."""

    @property
    def flushes(self) -> int:
        """How often."""

    @property
    def flush_ns(self) -> int:
        """How long in all."""


class NodeSources(NamedTuple):
    """Where the metrics of a broker come from."""

    server: SocketServer
    flushes: FlushCounts
    fetchers: ReplicaFetchers


class IdleShare:
    """The share of the time in which the event loop has nothing to do."""

    def __init__(self) -> None:
        self._began_ns = monotonic_ns()
        self._busy_ns = thread_time_ns()
        self._share = 1.0

    def read(self) -> float:
        """Since the last call that was long enough ago; called on the loop's thread."""
        now_ns, busy_ns = monotonic_ns(), thread_time_ns()
        elapsed_ns = now_ns - self._began_ns
        if elapsed_ns >= IDLE_LEAST_NS:
            self._share = max(0.0, 1 - (busy_ns - self._busy_ns) / elapsed_ns)
            self._began_ns, self._busy_ns = now_ns, busy_ns
        return self._share


class Rates:
    """Counts a second since the last look that was at least a second ago."""

    def __init__(self) -> None:
        self._looks: dict[tuple[str, str], tuple[int, int, float]] = {}

    def rate(self, name: str, label: str, count: int) -> float:
        """The rate of a counter."""
        now_ns = monotonic_ns()
        then_ns, before, rate = self._looks.get((name, label), (now_ns, count, 0.0))
        if now_ns - then_ns >= IDLE_LEAST_NS:
            rate = (count - before) * 1e9 / (now_ns - then_ns)
            then_ns, before = now_ns, count
        self._looks[name, label] = then_ns, before, rate
        return rate


class NodeMetrics:
    """Writes them."""

    def __init__(
        self, sources: NodeSources, metrics: BrokerMetrics, controller: Controller
    ) -> None:
        self._sources = sources
        self._metrics = metrics
        self._controller = controller
        self._idle = IdleShare()
        self._rates = Rates()

    async def write(self, exposition: Exposition) -> None:
        """All of them, in slices."""
        self._write_threads(exposition)
        await self._write_connections(exposition)
        self._write_coordination(exposition)
        self._write_disks(exposition)
        await pause()

    def _write_threads(self, exposition: Exposition) -> None:
        share = self._idle.read()
        for name in (
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate",
            "kafka_network_socketserver_networkprocessoravgidle_percent",
            "kafka_network_socketserver_networkprocessoravgidlepercent",
        ):
            exposition.metric(gauge(name, "The share of time in which the loop is idle."), share)

    async def _write_connections(self, exposition: Exposition) -> None:
        server = self._sources.server
        counts: Counter[str] = Counter(dict.fromkeys(self._metrics.listeners, 0))
        waiting: Counter[str] = Counter(dict.fromkeys(PURGATORIES.values(), 0))
        unsent = held = 0
        for number, connection in enumerate(tuple(server.connections)):
            if number % CONNECTIONS_PER_STEP == 0:
                await pause()
            counts[connection.listener_name] += 1
            unsent += bool(connection.transmitter.queue)
            held += bool(connection.held_since_ns)
            for request in connection.waiting:
                waiting[PURGATORIES.get(ApiKey(request.api_key), "topic")] += 1
        self._write_listeners(exposition, counts)
        for name, text, value in (
            ("requestqueuesize", "Connections with requests that wait for others.", held),
            ("responsequeuesize", "Connections that have not taken all responses.", unsent),
        ):
            exposition.metric(gauge(f"kafka_network_requestchannel_{name}", text), value)
        for name in ("purgatorysize", "numdelayedoperations"):
            family = gauge(
                f"kafka_server_delayedoperationpurgatory_{name}", "Requests that wait, by kind."
            )
            rows = [
                (f'{{delayedOperation="{kind}",delayedoperation="{kind}"}}', count)
                for kind, count in waiting.items()
            ]
            exposition.table(family, rows)

    def _write_listeners(self, exposition: Exposition, counts: Mapping[str, int]) -> None:
        listeners = self._metrics.listeners
        for prefix in SOCKET_SERVERS:
            family = gauge(f"{prefix}_connection_count", "Open connections.")
            exposition.table(
                family, [(listener_labels(name), count) for name, count in counts.items()]
            )
            for name, attribute, text in LISTENER_COUNTERS:
                rows = [
                    (listener_labels(listener), getattr(metrics, attribute))
                    for listener, metrics in listeners.items()
                ]
                exposition.table(counter(f"{prefix}_{name}", text), rows)
                rate = gauge(f"{prefix}_{name}_rate", f"{text[:-1]}, a second.")
                rates = [
                    (labels, self._rates.rate(rate.name, labels, count)) for labels, count in rows
                ]
                exposition.table(rate, rates)
        metrics = self._metrics
        expiry = gauge(
            "odradek_certificate_expiry_timestamp_seconds",
            "When the first certificate of a listener expires, in seconds since 1970.",
        )
        if metrics.certificate_expires_ms:
            exposition.metric(expiry, metrics.certificate_expires_ms / 1_000)
        for name, count in (
            ("ssl_handshakes", metrics.ssl_handshakes),
            ("failed_ssl_handshakes", metrics.failed_ssl_handshakes),
        ):
            exposition.metric(counter(f"odradek_{name}", "Handshakes of TLS."), count)

    def _write_coordination(self, exposition: Exposition) -> None:
        controller = self._controller
        elected, unclean = controller.requests.election_counts
        family = summary(
            "kafka_controller_controllerstats_leaderelectionrateandtimems",
            "Leaders that this controller has elected; without quantiles.",
        )
        exposition.begin(family)
        exposition.lone_count(family, elected)
        for name, text, value in (
            (
                "kafka_controller_controllerstats_uncleanleaderelections",
                "Leaders that were elected outside the in-sync replicas.",
                unclean,
            ),
            (
                "kafka_server_sessionexpirelistener_zookeeperdisconnects",
                "Connections to the coordination service that were lost.",
                controller.disconnections,
            ),
            (
                "kafka_server_sessionexpirelistener_zookeepersyncconnects",
                "Connections to the coordination service that came back.",
                controller.reconnections,
            ),
            (
                "kafka_server_sessionexpirelistener_zookeeperexpires",
                "Sessions of the coordination service that have expired.",
                controller.expirations,
            ),
        ):
            exposition.counters(counter(name, text), [("", value)])

    def _write_disks(self, exposition: Exposition) -> None:
        jobs = self._sources.flushes
        family = summary("kafka_log_logflushstats_logflushrateandtimems", "Flushes of logs.")
        exposition.begin(family)
        exposition.total(family, "", jobs.flushes, jobs.flush_ns / 1e6)
        family = gauge(
            "kafka_server_replicafetchermanager_maxlag",
            "Records that the partition furthest behind its leader lacks.",
        )
        exposition.begin(family)
        exposition.sample(
            family, self._sources.fetchers.lag_max(), {"clientId": "Replica", "clientid": "Replica"}
        )


def listener_labels(listener: str) -> str:
    """The labels of a listener under either set of rules."""
    return label_text({"listener": listener, "networkProcessor": "0", "network_processor": "0"})
