"""`odradek canary`: sends a record to each broker every second, and fetches it from there.

Each line on stdout is a JSON object: a `change` when a broker fails or recovers, a `summary` of
each broker every minute, a `problem` when the topic cannot be created or repaired.  A cluster that
is away at the start is a `change` with `cluster` in place of `broker`: with --notify it is waited
for, unless --rounds bounds the run; else it is a failure.
Exit codes: 0 success; 1 failure; 2 an invalid command line; with --rounds, 3 when a broker was not
available at the end; 130 after Ctrl-C.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from odradek.broker.monitoring.exposition import PROMETHEUS
from odradek.tools.canary.measurements import BrokerMeasurements, Probe, metrics
from odradek.tools.canary.prober import Prober
from odradek.tools.canary.topic import CanaryCluster, CanaryTopic
from odradek.tools.client import Client
from odradek.tools.errors import ToolError
from odradek.tools.notifications import NOTIFY_FLAGS, open_notifier
from odradek.tools.options import CLIENT_FLAGS, Options, positive_number, read_flags
from odradek.tools.page_server import ToolPage, open_page_server
from odradek.tools.run_command import run_with_client

WHAT_IT_DOES: Final = "This tool sends records to each broker of a cluster, and reads them back."
TOPIC: Final = "__odradek_canary"
CLIENT_ID: Final = "odradek-canary"
INTERVAL_MS: Final = 1_000
TIMEOUT_MS: Final = 3_000
SUMMARY_INTERVAL_MS: Final = 60_000
REPAIR_INTERVAL_S: Final = 10.0
THREADS_MAX: Final = 64
"""Brokers that are probed at the same time; others wait for one of them."""
NOT_AVAILABLE: Final = 3
CHANGE: Final = "change"

FLAGS: Final = (*CLIENT_FLAGS, *NOTIFY_FLAGS, *read_flags("canary"))


def main(arguments: Sequence[str]) -> int:
    return run_with_client(arguments, WHAT_IT_DOES, _act, FLAGS)


def _act(client: Client, options: Options) -> int:
    rounds = positive_number(options, "rounds", 0) if options.has("rounds") else None
    notifier = open_notifier(options, lambda line: print(line, file=sys.stderr))

    def emit(line: dict[str, Any]) -> None:
        print(json.dumps(line), flush=True)
        # A broker that is available at the start is not news.
        is_news = line["event"] == CHANGE and (not line["available"] or line["failed_probes"])
        if notifier is not None and is_news:
            notifier.notify(subject_of(line), notification(line))

    canary = Canary(
        client,
        options.value("topic") or TOPIC,
        interval_ms=positive_number(options, "interval-ms", INTERVAL_MS),
        timeout_ms=positive_number(options, "timeout-ms", TIMEOUT_MS),
        summary_interval_ms=positive_number(options, "summary-interval-ms", SUMMARY_INTERVAL_MS),
        emit=emit,
    )
    with ExitStack() as stack:
        if notifier is not None:
            stack.callback(notifier.close)
        listen = options.value("listen")
        if listen is not None:
            server = stack.enter_context(open_page_server(listen, canary.page))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
        canary.wait_for_cluster(
            options.required("bootstrap-server"), is_patient=notifier is not None and rounds is None
        )
        return 0 if canary.run(rounds) else NOT_AVAILABLE


def subject_of(change: Mapping[str, Any]) -> str:
    """The broker, or the cluster at the start, that has changed."""
    return next(f"{kind} {change[kind]}" for kind in ("broker", "cluster") if kind in change)


def notification(change: Mapping[str, Any]) -> dict[str, object]:
    """What is posted of a change."""
    state = "available" if change["available"] else f"not available: {change['reason']}"
    return {"kind": "canary", "text": f"Kafka {subject_of(change)} is {state}", **change}


class Canary:
    """Probes all brokers of a cluster.

    One thread decides and prints; requests are sent in others, at most one for a broker at a time,
    and one for the topic.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        *,
        interval_ms: int,
        timeout_ms: int,
        summary_interval_ms: int,
        emit: Callable[[dict[str, Any]], None],
    ) -> None:
        client.set_timeout(timeout_ms)
        self._client = client
        self._topic_name = topic
        self._topic = CanaryTopic(client, topic)
        self._cluster = CanaryCluster({}, {}, UUID(int=0))
        self._interval_s = interval_ms / 1_000
        self._timeout_ms = timeout_ms
        self._summary_interval_s = summary_interval_ms / 1_000
        self._emit = emit
        self._probers: dict[int, Prober] = {}
        self._running: dict[int, Future[Probe]] = {}
        self._lock = threading.Lock()
        self._brokers: dict[int, BrokerMeasurements] = {}
        """Read by the server's threads, under the lock."""

    def wait_for_cluster(self, bootstrap: str, *, is_patient: bool) -> None:
        """Bring about the topic.

        bootstrap   the addresses of the cluster, for the lines about it
        is_patient  try until it is there
        raises      ToolError of the first attempt, if not patient
        """
        failures = 0
        while True:
            try:
                self._cluster = self._first_cluster()
            except ToolError as error:
                failures += 1
                if failures == 1:
                    self._say_cluster(bootstrap, str(error), failures)
                if not is_patient:
                    raise
                self._client.close()
                time.sleep(self._interval_s)
                continue
            if failures:
                self._say_cluster(bootstrap, "", failures)
            return

    def _say_cluster(self, bootstrap: str, reason: str, failures: int) -> None:
        is_available = not reason
        self._say(
            CHANGE, cluster=bootstrap, available=is_available, reason=reason, failed_probes=failures
        )

    def run(self, rounds: int | None) -> bool:
        """Probe the cluster that `wait_for_cluster` has found; whether all brokers were available
        at the end.

        rounds  None: until it is interrupted
        """
        cluster = self._cluster
        repair: Future[CanaryCluster] | None = None
        began = next_repair = next_summary = time.monotonic()
        next_summary += self._summary_interval_s
        count = 0
        with (
            ThreadPoolExecutor(min(THREADS_MAX, 4 + len(cluster.partitions))) as probes,
            ThreadPoolExecutor(1) as repairs,
        ):
            while rounds is None or count < rounds:
                self._start_probes(probes, cluster)
                count += 1
                next_round = began + count * self._interval_s
                has_failed = self._collect(next_round)
                time.sleep(max(0.0, next_round - time.monotonic()))
                now = time.monotonic()
                # A round that took longer is not made up for.
                began = max(began, now - count * self._interval_s)
                if repair is not None and repair.done():
                    cluster = self._repaired(repair, cluster)
                    repair = None
                if repair is None and (has_failed or now >= next_repair):
                    repair = repairs.submit(self._topic.bring_about)
                    next_repair = now + REPAIR_INTERVAL_S
                if now >= next_summary:
                    next_summary = now + self._summary_interval_s
                    self._summarize()
            self._collect(time.monotonic() + 3 * self._timeout_ms / 1_000)
        self._summarize()
        for prober in self._probers.values():
            prober.close()
        return all(broker.is_available for broker in self._brokers.values())

    def _first_cluster(self) -> CanaryCluster:
        def attempt() -> CanaryCluster | None:
            cluster = self._topic.bring_about()
            return cluster if cluster.partitions else None

        cluster = self._client.retry(attempt)
        if cluster is None:
            raise ToolError(f"topic {self._topic_name} has no partitions yet")
        return cluster

    def _repaired(self, repair: Future[CanaryCluster], former: CanaryCluster) -> CanaryCluster:
        try:
            cluster = repair.result()
        except ToolError as error:
            self._say("problem", reason=str(error))
            self._client.close()
            return former
        return cluster if cluster.partitions else former

    def _start_probes(self, pool: ThreadPoolExecutor, cluster: CanaryCluster) -> None:
        for broker_id, partition in sorted(cluster.partitions.items()):
            if broker_id in self._running:
                continue
            prober = self._probers.get(broker_id)
            if prober is None:
                prober = self._probers[broker_id] = Prober(
                    self._topic_name,
                    client_id=CLIENT_ID,
                    timeout_ms=self._timeout_ms,
                    security=self._client.security,
                )
            address = cluster.addresses.get(broker_id)
            self._running[broker_id] = pool.submit(
                prober.probe, address, partition, cluster.topic_id
            )

    def _collect(self, until: float) -> bool:
        """Note the probes that end until then; whether one of them failed."""
        has_failed = False
        while self._running and (left_s := until - time.monotonic()) > 0:
            wait(self._running.values(), left_s, return_when="FIRST_COMPLETED")
            for broker_id, future in list(self._running.items()):
                if future.done():
                    del self._running[broker_id]
                    has_failed |= self._note(broker_id, future.result())
        return has_failed

    def _note(self, broker_id: int, probe: Probe) -> bool:
        with self._lock:
            broker = self._brokers.get(broker_id)
            if broker is None:
                broker = self._brokers[broker_id] = BrokerMeasurements(broker_id)
            change = broker.add(probe)
        if change is not None:
            self._say(
                CHANGE,
                broker=change.broker_id,
                available=change.is_available,
                reason=change.reason,
                failed_probes=change.failed_probes,
            )
        return probe.error is not None

    def _summarize(self) -> None:
        for broker_id in sorted(self._brokers):
            self._say("summary", **self._brokers[broker_id].as_json())

    def _say(self, event: str, **content: object) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._emit({"time": now, "event": event, **content})

    def page(self, path: str) -> ToolPage:
        """`/metrics` and `/status`; called in threads of the server."""
        with self._lock:
            if path == "/metrics":
                return ToolPage(200, PROMETHEUS, metrics(self._brokers))
            if path == "/status":
                rows = [self._brokers[broker_id].as_json() for broker_id in sorted(self._brokers)]
                return ToolPage(200, "application/json", json.dumps(rows).encode())
        return ToolPage(404, "text/plain", b"/metrics and /status\n")
